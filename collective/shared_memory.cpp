// memfd_create, reserved and sealed so that its size never changes under a reader.
#include "collective/shared_memory.h"

#include "base/checked.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

namespace diji::collective {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::optional<std::int64_t> number_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::int64_t number = -1;
  if (!(stream >> number)) return std::nullopt;  // "max" too
  return number;
}

// The folder of this process in the hierarchy of `controller` ("" is version 2).
std::string cgroup_folder(std::string_view controller) {
  std::ifstream stream("/proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {  // "4:memory:/a/b", "0::/a/b"
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controller) return line.substr(second + 1);
  }
  return "";
}

std::unexpected<Error> memory_error(std::int64_t bytes, const std::string& why) {
  auto error =
      fail(ErrorCode::out_of_memory, "shared memory of {} bytes for the ranks of this host: {}", bytes, why);
  error.error().bytes = bytes;
  return error;
}

}  // namespace

std::int64_t cgroup_memory_left() {
  struct Files {
    const char* controller;
    const char* root;
    const char* limit;
    const char* usage;
  };
  constexpr Files kVersions[] = {
      {"", "/sys/fs/cgroup", "memory.max", "memory.current"},
      {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"}};
  std::int64_t left = -1;
  for (const Files& files : kVersions) {
    std::filesystem::path folder = files.root + cgroup_folder(files.controller);
    for (; folder.string().size() >= std::string_view(files.root).size(); folder = folder.parent_path()) {
      const auto limit = number_in(folder / files.limit);
      const auto usage = number_in(folder / files.usage);
      if (!limit || !usage || *limit >= (std::int64_t{1} << 60))
        continue;  // version 1 writes "none" as 2^63 - 4096
      const std::int64_t here = std::max<std::int64_t>(*limit - *usage, 0);
      left = left < 0 ? here : std::min(left, here);
    }
  }
  return left;
}

namespace {

// Nothing else stops posix_fallocate before the kernel starts to kill processes.
std::int64_t machine_memory_left() {
  std::ifstream stream("/proc/meminfo");
  std::string word;
  for (std::int64_t kib = 0; stream >> word;) {
    if (word == "MemAvailable:" && stream >> kib) return kib << 10;
  }
  return -1;
}

}  // namespace

Result<std::shared_ptr<SharedMemory>> SharedMemory::create(const std::string& name, std::int64_t bytes) {
  const std::int64_t left = cgroup_memory_left();
  if (left >= 0 && bytes > left) {
    return memory_error(bytes,
                        fmt::format("the memory limit of this container leaves {}; allow more, or let fewer "
                                    "ranks share the host",
                                    left));
  }
  constexpr std::int64_t kSmall = 64 << 20;  // not worth the look: start-up has other costs
  const std::int64_t available = bytes > kSmall ? machine_memory_left() : -1;
  if (available >= 0 && bytes > available)
    return memory_error(bytes, fmt::format("this machine has {} left", available));
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->descriptor_ = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory->descriptor_ < 0) return memory_error(bytes, std::strerror(errno));
  const int reserved = posix_fallocate(memory->descriptor_, 0, bytes);
  if (reserved != 0) return memory_error(bytes, std::strerror(reserved));
  fcntl(memory->descriptor_, F_ADD_SEALS, kSeals);
  void* start = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                     memory->descriptor_, 0);
  if (start == MAP_FAILED) return memory_error(bytes, std::strerror(errno));
  memory->bytes_ = {static_cast<std::byte*>(start), static_cast<std::size_t>(bytes)};
  return memory;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::map(int descriptor, Access access) {
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->descriptor_ = descriptor;
  struct stat status{};
  if (fstat(descriptor, &status) != 0)
    return fail(ErrorCode::io, "a peer's memory: {}", std::strerror(errno));
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || status.st_size <= 0) {
    return fail(ErrorCode::malformed, "what a peer sent as its memory is no sealed memfd");
  }
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* start =
      mmap(nullptr, static_cast<std::size_t>(status.st_size), protection, MAP_SHARED, descriptor, 0);
  if (start == MAP_FAILED) return fail(ErrorCode::io, "mapping a peer's memory: {}", std::strerror(errno));
  memory->bytes_ = {static_cast<std::byte*>(start), static_cast<std::size_t>(status.st_size)};
  if (access == Access::read) {
    close(descriptor);
    memory->descriptor_ = -1;
  }
  return memory;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace diji::collective
