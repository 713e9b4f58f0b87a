// The compile cache: compiled kernels on disk, shared by processes, never trusted further than checked.
#pragma once

#include "base/error.h"
#include "device/device.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

/// One entry as `diji cache ls` shows it.
struct CacheEntry {
  std::string key;
  std::string kernel;  ///< entry name
  std::string device;  ///< fingerprint it was compiled for
  std::uint64_t bytes = 0;
  std::string problem;  ///< why it will not be used; empty when it is good
};

/// A folder of files named by the hash of (kernel text, device fingerprint, plugin build, diji's version).
/// Entries are written whole or not at all, carry a checksum, and are read by any number of processes while
/// others write. The folder must belong to this user and be writable by nobody else, since entries are
/// machine code; otherwise nothing is read or written and one warning says why. Thread-safe.
class CompileCache {
 public:
  /// Bytes above which keep_within_limit() drops the entries that were used longest ago.
  static constexpr std::uint64_t kBytesMax = std::uint64_t{512} << 20;

  /// DIJI_CACHE_DIR, else XDG_CACHE_HOME/diji/kernels, else ~/.cache/diji/kernels. "off" as DIJI_CACHE_DIR:
  /// no cache.
  static std::filesystem::path default_folder();
  explicit CompileCache(std::filesystem::path folder = default_folder(), std::uint64_t bytes_max = kBytesMax);

  /// `compiler` tells apart whatever turns one text into different code: device, plugin, its build.
  static std::string key_of(std::string_view text, std::string_view compiler);
  /// A good entry's blob. A damaged one counts as missing (and is replaced by the next store).
  std::optional<std::vector<std::byte>> find(const std::string& key, std::string_view fingerprint);
  /// Best effort: a full disk or a folder that cannot be written is one warning, not an error.
  void store(const std::string& key, std::string_view kernel, std::string_view fingerprint,
             std::span<const std::byte> blob);

  /// After the last store of a compilation: drops what was used longest ago beyond the limit.
  void keep_within_limit();

  const std::filesystem::path& folder() const { return folder_; }
  /// All entries, checked. Errors: the folder's owner or mode.
  Result<std::vector<CacheEntry>> list() const;
  /// Removes damaged entries and, oldest first, what exceeds `bytes_max`. Returns how many went.
  Result<int> prune(std::uint64_t bytes_max);

 private:
  bool usable();
  void warn_once(std::string_view sentence);
  std::filesystem::path folder_;
  std::uint64_t bytes_max_;
  std::atomic<int> state_ = 0;  // 0 not looked at, 1 usable, 2 not
  std::atomic<bool> warned_ = false;
};

}  // namespace diji
