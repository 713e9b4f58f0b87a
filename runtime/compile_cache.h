// The compile cache: compiled kernels on disk, shared by processes, never trusted further than checked.
#pragma once

#include "base/error.h"
#include "runtime/cache_folder.h"

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
  std::string kernel;  ///< entry name, or which model
  std::string device;  ///< fingerprint it was compiled for
  std::uint64_t bytes = 0;
  std::string problem;  ///< why it will not be used; empty when it is good
};

/// Kernels by the hash of (kernel text, device fingerprint, plugin build, diji's version); entries carry a
/// checksum. Thread-safe.
class CompileCache {
 public:
  static constexpr std::uint64_t kBytesMax = CacheFolder::kBytesMax;

  explicit CompileCache(std::filesystem::path folder = CacheFolder::default_path(),
                        std::uint64_t bytes_max = kBytesMax);

  /// `compiler` tells apart whatever turns one text into different code: device, plugin, its build.
  static std::string key_of(std::string_view text, std::string_view compiler);
  /// A good entry's blob. A damaged one counts as missing (and is replaced by the next store).
  std::optional<std::vector<std::byte>> find(const std::string& key, std::string_view fingerprint);
  /// Best effort: a full disk or a folder that cannot be written is one warning, not an error.
  void store(const std::string& key, std::string_view kernel, std::string_view fingerprint,
             std::span<const std::byte> blob);

  /// What models are kept in as well (runtime/image_cache.h).
  CacheFolder& files() { return folder_; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  /// All entries, kernels and models, checked. Errors: the folder's owner or mode.
  Result<std::vector<CacheEntry>> list() const;
  /// Removes damaged entries and, oldest first, what exceeds `bytes_max`. Returns how many went.
  Result<int> prune(std::uint64_t bytes_max);

 private:
  CacheFolder folder_;
};

}  // namespace diji
