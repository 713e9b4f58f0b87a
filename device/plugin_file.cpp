// Owner, mode and extent of a plugin's file.
#include "device/plugin_file.h"

#include "base/files.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace diji {
namespace {

template <typename... Args>
std::unexpected<Error> refuse(fmt::format_string<Args...> text, Args&&... args) {
  return fail(ErrorCode::no_device, text, std::forward<Args>(args)...);
}

/// Owner and mode of a file or folder that code is loaded from: whoever may write it may run code as this
/// user.
Result<void> check_trusted(const struct stat& status, std::string_view what) {
  if (status.st_uid != 0 && status.st_uid != geteuid()) {
    return refuse("{} belongs to user {}; it must belong to root or to you (user {})", what, status.st_uid,
                  geteuid());
  }
  const bool sticky_folder = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !sticky_folder) {
    return refuse("{} may be written by others (mode {:o}); run chmod go-w on it", what,
                  status.st_mode & 07777);
  }
  return {};
}

/// Program headers and what they map, against the file's size.
Result<void> check_extent(const std::string& path) {
  const auto file = TRY(MappedFile::open(path));
  const auto bytes = file->bytes();
  Elf64_Ehdr elf{};
  if (bytes.size() < sizeof(elf)) return refuse("it is too short to be a shared object");
  std::memcpy(&elf, bytes.data(), sizeof(elf));
  if (std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
      elf.e_type != ET_DYN) {
    return refuse("it is not a 64-bit ELF shared object");
  }
  const auto inside = [&](std::uint64_t offset, std::uint64_t size) {
    return offset <= bytes.size() && size <= bytes.size() - offset;
  };
  constexpr std::string_view kCut = "it is cut off: it maps bytes beyond the end of the file";
  if (!inside(elf.e_phoff, std::uint64_t{elf.e_phnum} * sizeof(Elf64_Phdr))) return refuse("{}", kCut);
  for (std::size_t i = 0; i < elf.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + elf.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type == PT_LOAD && !inside(segment.p_offset, segment.p_filesz)) return refuse("{}", kCut);
  }
  return {};
}

}  // namespace

Result<void> check_plugin_file(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return refuse("{}", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return refuse("it is not a regular file");
  TRY(check_trusted(status, "the file"));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (stat(folder.empty() ? "." : folder.c_str(), &status) != 0) return refuse("{}", std::strerror(errno));
  TRY(check_trusted(status, "its folder"));
  return check_extent(path);
}

}  // namespace diji
