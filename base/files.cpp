// Mapping, reading and atomically writing files with the system's reason in every error.
#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <new>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace diji {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int number() const { return number_; }
  /// 0, or errno: some file systems report a failed write only here.
  int close() { return ::close(std::exchange(number_, -1)) == 0 ? 0 : errno; }

 private:
  int number_;
};

std::unexpected<Error> fail_with_errno(int number, std::string_view verb, const std::filesystem::path& path,
                                       ErrorCode code = ErrorCode::io) {
  auto error = fail(code, "cannot {} '{}': {}", verb, path.string(), std::generic_category().message(number));
  error.error().file = path.string();
  return error;
}

std::unexpected<Error> refuse(std::string_view verb, const std::filesystem::path& path,
                              std::string_view why) {
  auto error = fail(ErrorCode::io, "cannot {} '{}': {}", verb, path.string(), why);
  error.error().file = path.string();
  return error;
}

struct OpenFile {
  Descriptor descriptor;
  std::size_t bytes;
};

Result<OpenFile> open_regular(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO without a writer would wait for one.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.number() < 0) {
    const int number = errno;
    const bool missing = number == ENOENT || number == ENOTDIR;
    return fail_with_errno(number, "open", path, missing ? ErrorCode::not_found : ErrorCode::io);
  }
  struct stat status;
  if (::fstat(descriptor.number(), &status) != 0) return fail_with_errno(errno, "open", path);
  if (S_ISDIR(status.st_mode)) return refuse("open", path, "it is a directory");
  if (!S_ISREG(status.st_mode)) return refuse("open", path, "it is not a regular file");
  return OpenFile{std::move(descriptor), static_cast<std::size_t>(status.st_size)};
}

int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

int reserve(int descriptor, std::size_t bytes) {
  if (bytes == 0) return 0;
  int number = EINTR;
  while (number == EINTR) number = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  // A file system that cannot reserve reports a full disk while writing instead.
  return number == EOPNOTSUPP || number == EINVAL ? 0 : number;
}

// Some file systems have no fsync for folders; they say EINVAL.
int sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.number() < 0) return errno;
  return ::fsync(descriptor.number()) == 0 || errno == EINVAL ? 0 : errno;
}

// A new file beside `path`. The name is random: several processes may write the same path.
Result<std::pair<Descriptor, std::filesystem::path>> create_beside(const std::filesystem::path& path) {
  constexpr int kTriesMax = 16;
  std::random_device random;
  for (int i = 0; i < kTriesMax; ++i) {
    std::filesystem::path beside = path;
    beside += fmt::format(".{:08x}.part", random());
    Descriptor descriptor(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (descriptor.number() >= 0) return std::pair(std::move(descriptor), std::move(beside));
    if (errno != EEXIST) return fail_with_errno(errno, "write", path);
  }
  return fail_with_errno(EEXIST, "write", path);
}

int write_and_rename(Descriptor& descriptor, const std::filesystem::path& beside,
                     const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts) {
  std::size_t bytes = 0;
  for (const auto part : parts) bytes += part.size();
  if (const int number = reserve(descriptor.number(), bytes); number != 0) return number;
  for (const auto part : parts) {
    if (const int number = write_all(descriptor.number(), part); number != 0) return number;
  }
  if (::fsync(descriptor.number()) != 0) return errno;
  if (const int number = descriptor.close(); number != 0) return number;
  return std::rename(beside.c_str(), path.c_str()) == 0 ? 0 : errno;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  const OpenFile file = TRY(open_regular(path));
  const std::shared_ptr<MappedFile> mapped(new MappedFile());  // the constructor is private
  mapped->path_ = path.string();
  if (file.bytes == 0) return mapped;  // mmap refuses an empty range
  void* address = ::mmap(nullptr, file.bytes, PROT_READ, MAP_PRIVATE, file.descriptor.number(), 0);
  if (address == MAP_FAILED) return fail_with_errno(errno, "map", path);
  mapped->bytes_ = {static_cast<const std::byte*>(address), file.bytes};
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void forget_pages(std::span<const std::byte> mapped) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = (begin + mapped.size()) / page * page;
  // A refusal costs memory and nothing else.
  if (first < last) (void)::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

Result<std::vector<std::byte>> read_file(const std::filesystem::path& path) {
  constexpr std::size_t kChunkBytes = 4096;
  const OpenFile file = TRY(open_regular(path));
  std::vector<std::byte> bytes;
  std::size_t used = 0;
  try {
    bytes.resize(file.bytes + 1);  // one more, so that the end is seen without growing
    while (true) {
      const ssize_t got = ::read(file.descriptor.number(), bytes.data() + used, bytes.size() - used);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail_with_errno(errno, "read", path);
      if (got == 0) break;
      used += static_cast<std::size_t>(got);
      if (used == bytes.size())
        bytes.resize(2 * used + kChunkBytes);  // it grew, or is in /proc and has size 0
    }
  } catch (const std::bad_alloc&) {
    return fail_with_errno(ENOMEM, "read", path, ErrorCode::out_of_memory);
  } catch (const std::length_error&) {
    return fail_with_errno(ENOMEM, "read", path, ErrorCode::out_of_memory);
  }
  bytes.resize(used);
  return bytes;
}

Result<void> write_file_atomically(const std::filesystem::path& path,
                                   std::span<const std::span<const std::byte>> parts) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    // rename would put a file in the place of /dev/null.
    return refuse("write", path, S_ISDIR(status.st_mode) ? "it is a directory" : "it is not a regular file");
  }
  auto [descriptor, beside] = TRY(create_beside(path));
  if (const int number = write_and_rename(descriptor, beside, path, parts); number != 0) {
    ::unlink(beside.c_str());
    return fail_with_errno(number, "write", path);
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (const int number = sync_folder(folder); number != 0) return fail_with_errno(number, "write", path);
  return {};
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  return write_file_atomically(path, std::span(&bytes, 1));
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  return write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace diji
