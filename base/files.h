// Files: read or mapped whole, written whole or not at all.
#pragma once

#include "base/error.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

/// A read-only mapping of a regular file. The bytes live as long as the object (share it to keep them).
class MappedFile {
 public:
  /// Errors: not_found or io, naming the file and the system's reason; directories and devices are refused.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile() = default;
  std::string path_;
  std::span<const std::byte> bytes_;
};

/// Gives the whole pages of a part of a mapped file (never of other memory) back to the system; whoever reads
/// them again has them from the file again.
void forget_pages(std::span<const std::byte> mapped);

/// The whole file in memory of its own. Same errors as MappedFile::open.
Result<std::vector<std::byte>> read_file(const std::filesystem::path& path);

/// Temporary file beside `path`, space reserved (posix_fallocate: a full disk is an error here, not SIGBUS
/// later), written, fsync, rename, fsync of the folder. After a crash at any point `path` is the old file or
/// the new one. Errors: io, naming the file and the system's reason; a folder or device in its place is
/// refused.
Result<void> write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view text);
/// The parts behind each other.
Result<void> write_file_atomically(const std::filesystem::path& path,
                                   std::span<const std::span<const std::byte>> parts);

}  // namespace diji
