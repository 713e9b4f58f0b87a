// Safe opening: the kernel resolves the path beneath the folder without links, and the open file itself is
// examined, so that nothing can be swapped between a check and its use.
#include "formats/onnx/external_data.h"

#include "base/checked.h"
#include "formats/onnx/names.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

namespace diji::onnx {

struct ExternalFiles::Mapping {
  std::span<const std::byte> bytes;
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (!bytes.empty()) ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
  }
};

namespace {

struct Descriptor {
  int number = -1;
  explicit Descriptor(int descriptor) : number(descriptor) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

struct Range {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};

std::unexpected<Error> refused(const TensorProto& tensor, std::string_view file, std::string_view location,
                               std::string_view why) {
  return fail_at(ErrorCode::malformed, file, tensor.offset, "external data of tensor '{}' in '{}': {}",
                 shown(tensor.name), shown(location), why);
}

Result<std::uint64_t> parse_count(const TensorProto& tensor, std::string_view file,
                                  const StringEntry& entry) {
  std::uint64_t count = 0;
  const auto [end, error] =
      std::from_chars(entry.value.data(), entry.value.data() + entry.value.size(), count);
  if (error != std::errc() || end != entry.value.data() + entry.value.size()) {
    return fail_at(ErrorCode::malformed, file, entry.offset,
                   "external data of tensor '{}': {} '{}' is no byte count", shown(tensor.name), entry.key,
                   shown(entry.value));
  }
  return count;
}

// ".." is refused even where it stays inside: no exporter writes it.
bool is_plain_path(std::string_view location) {
  if (location.empty() || location.front() == '/' || location.find('\0') != std::string_view::npos)
    return false;
  std::size_t start = 0;
  while (start <= location.size()) {
    const std::size_t end = std::min(location.find('/', start), location.size());
    const std::string_view part = location.substr(start, end - start);
    if (part.empty() || part == "..") return false;
    start = end + 1;
  }
  return true;
}

Result<Range> parse_range(const TensorProto& tensor, std::string_view file) {
  Range range;
  for (const StringEntry& entry : tensor.external_data) {
    if (entry.key == "location") range.location = std::string(entry.value);
    if (entry.key == "offset") range.offset = TRY(parse_count(tensor, file, entry));
    if (entry.key == "length") range.length = TRY(parse_count(tensor, file, entry));
  }
  if (!is_plain_path(range.location)) {
    return refused(tensor, file, range.location,
                   "the location must be a path below the model's folder without '..'");
  }
  return range;
}

std::string reason_of(int number) {
  if (number == EXDEV || number == ELOOP) return "it leads through a link or out of the model's folder";
  if (number == ENOSYS)
    return "this kernel has no openat2 (Linux 5.6), without which it cannot be opened safely";
  return std::generic_category().message(number);
}

int open_beneath(int folder, const std::string& location) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, folder, location.c_str(), &how, sizeof how));
}

}  // namespace

Result<std::shared_ptr<const ExternalFiles::Mapping>> ExternalFiles::map(const TensorProto& tensor,
                                                                         std::string_view file,
                                                                         const std::string& location) {
  if (const auto found = mappings_.find(location); found != mappings_.end()) return found->second;
  const Descriptor folder(::open(folder_.empty() ? "." : folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.number < 0) return refused(tensor, file, location, reason_of(errno));
  const Descriptor data(open_beneath(folder.number, location));
  if (data.number < 0) {
    const int number = errno;
    auto error = refused(tensor, file, location, reason_of(number));
    if (number == ENOENT) error.error().code = ErrorCode::not_found;
    return error;
  }
  struct stat status;
  if (::fstat(data.number, &status) != 0) return refused(tensor, file, location, reason_of(errno));
  if (!S_ISREG(status.st_mode)) return refused(tensor, file, location, "it is not a regular file");
  // A second name may stand anywhere, for a file the model's author could not read otherwise.
  if (status.st_nlink != 1) return refused(tensor, file, location, "the file has several names (hard links)");
  auto mapping = std::make_shared<Mapping>();
  if (status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, data.number, 0);
    if (address == MAP_FAILED) return refused(tensor, file, location, reason_of(errno));
    mapping->bytes = {static_cast<const std::byte*>(address), size};
  }
  mappings_.emplace(location, mapping);
  return mapping;
}

std::vector<std::string> ExternalFiles::files() const {
  std::vector<std::string> names;
  for (const auto& [name, mapping] : mappings_) names.push_back(name);
  return names;
}

Result<ExternalBytes> ExternalFiles::bytes(const TensorProto& tensor, std::string_view file,
                                           std::uint64_t bytes_wanted) {
  const Range range = TRY(parse_range(tensor, file));
  if (!has_folder_) return refused(tensor, file, range.location, "these bytes come from no folder");
  if (range.length && *range.length != bytes_wanted) {
    return refused(tensor, file, range.location,
                   fmt::format("length {} where the shape needs {} bytes", *range.length, bytes_wanted));
  }
  const std::shared_ptr<const Mapping> mapping = TRY(map(tensor, file, range.location));
  const auto end = checked_add(range.offset, bytes_wanted);
  if (!end || *end > mapping->bytes.size()) {
    return refused(tensor, file, range.location,
                   fmt::format("{} bytes at offset {} are wanted, the file has {}", bytes_wanted,
                               range.offset, mapping->bytes.size()));
  }
  used_.push_back(mapping->bytes.subspan(range.offset, bytes_wanted));
  return ExternalBytes{used_.back(), mapping};
}

}  // namespace diji::onnx
