// Memory that several processes map: made without a name, reserved before it is used, gone with its last
// holder.
#pragma once

#include "base/error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace diji::collective {

enum class Access : std::uint8_t { read, read_write };

/// A memfd and its mapping. There is no name in the file system to guess or to clean up; whoever gets the
/// descriptor may map it. Its pages are taken at once (posix_fallocate): a full memory is an error here and
/// not SIGBUS later.
class SharedMemory {
 public:
  /// Zero-filled. `name` shows in /proc/PID/fd as /memfd:NAME. Errors: out_of_memory, naming size and reason,
  /// also where the memory limit of this process's cgroup leaves no room.
  static Result<std::shared_ptr<SharedMemory>> create(const std::string& name, std::int64_t bytes);
  /// Maps what another process made; takes the descriptor, which is closed at once where nothing but reading
  /// is asked for. Errors: malformed (not a sealed memfd of that size), io.
  static Result<std::shared_ptr<SharedMemory>> map(int descriptor, Access access = Access::read_write);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int descriptor() const { return descriptor_; }
  std::byte* data() const { return bytes_.data(); }
  std::int64_t size() const { return std::ssize(bytes_); }

 private:
  SharedMemory() = default;
  int descriptor_ = -1;
  std::span<std::byte> bytes_;
};

/// Bytes that this process's cgroup may still take (version 1 and 2), or -1 where nothing limits it.
std::int64_t cgroup_memory_left();

}  // namespace diji::collective
