// A folder of cache files: this user's alone, bounded, shared by processes.
#pragma once

#include "base/error.h"
#include "base/files.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

/// Files are written whole or not at all, and read by any number of processes while others write. The folder
/// must belong to this user and be writable by nobody else, since entries are machine code; otherwise nothing
/// is read or written and one warning says why. Thread-safe.
class CacheFolder {
 public:
  /// Bytes above which keep_within_limit() drops the files that were used longest ago.
  static constexpr std::uint64_t kBytesMax = std::uint64_t{4} << 30;

  /// DIJI_CACHE_DIR, else XDG_CACHE_HOME/diji/kernels, else ~/.cache/diji/kernels. "off" as DIJI_CACHE_DIR:
  /// empty, which is no cache.
  static std::filesystem::path default_path();
  CacheFolder(std::filesystem::path path, std::uint64_t bytes_max)
      : path_(std::move(path)), bytes_max_(bytes_max) {}

  const std::filesystem::path& path() const { return path_; }
  /// Whether it is there (or could be made) and to be trusted.
  bool usable();
  /// The file of this name, mapped; null where there is none. One of another user, or that others may write,
  /// is a warning and null.
  std::shared_ptr<const MappedFile> open(const std::string& name);
  /// Now is the time of its last use.
  void touch(const std::string& name) const;
  /// Best effort: a full disk is one warning, not an error. The parts stand behind each other.
  void write(const std::string& name, std::span<const std::span<const std::byte>> parts);

  /// After the last store of a compilation: drops what was used longest ago beyond the limit, and what
  /// writers that were killed left.
  void keep_within_limit();

  struct File {
    std::filesystem::path path;
    std::filesystem::file_time_type used;
    std::uint64_t bytes = 0;
  };
  /// Of diji's suffixes, sorted by name. Errors: the folder's owner or mode.
  Result<std::vector<File>> files() const;
  bool remove(const std::filesystem::path& file) const;
  /// Oldest first, what exceeds `bytes_max`; returns how many went.
  int prune(std::uint64_t bytes_max) const;

  /// One a folder object: the sentence is about why there is no cache.
  void warn_once(std::string_view sentence);

 private:
  std::filesystem::path path_;
  std::uint64_t bytes_max_;
  std::atomic<int> state_ = 0;  // 0 not looked at, 1 usable, 2 not
  std::atomic<bool> warned_ = false;
};

}  // namespace diji
