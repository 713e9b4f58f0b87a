// Trust, age and size of cache files.
#include "runtime/cache_folder.h"

#include "base/log.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>

namespace diji {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffixes[] = {".kernel", ".image", ".model"};

// Why the folder's contents cannot be trusted, or "".
std::string distrust(const fs::path& folder) {
  struct stat info{};
  if (::stat(folder.c_str(), &info) != 0) return "cannot be looked at";
  if (!S_ISDIR(info.st_mode)) return "is not a folder";
  if (info.st_uid != ::geteuid()) return fmt::format("belongs to user {}", info.st_uid);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "can be written by others";
  return "";
}

// Makes the folder and what is missing above it for this user alone; the system's reason, or "".
std::string make_private(const fs::path& folder) {
  std::error_code status;
  if (fs::exists(folder, status)) return "";
  if (folder.has_parent_path() && folder.parent_path() != folder) {
    if (std::string reason = make_private(folder.parent_path()); !reason.empty()) return reason;
  }
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return "";
  return std::system_category().message(errno);
}

// An entry is machine code: only a regular file of this user that nobody else may write is read. (Looked at
// without following links; the folder is this user's, so nobody can change it in between.)
bool trusted_entry(const fs::path& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::vector<CacheFolder::File> files_of(const fs::path& folder) {
  std::vector<CacheFolder::File> found;
  std::error_code status;
  for (fs::directory_iterator it(folder, status), end; !status && it != end; it.increment(status)) {
    std::error_code ignored;
    if (std::ranges::find(kSuffixes, it->path().extension().string()) == std::end(kSuffixes)) continue;
    if (!it->is_regular_file(ignored)) continue;
    found.push_back({it->path(), it->last_write_time(ignored), it->file_size(ignored)});
  }
  std::ranges::sort(found, {}, &CacheFolder::File::path);
  return found;
}

// Temporary files of writers that were killed; a living writer is done within seconds.
void drop_leftovers(const fs::path& folder) {
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::error_code status;
  for (fs::directory_iterator it(folder, status), end; !status && it != end; it.increment(status)) {
    std::error_code ignored;
    if (it->path().extension() == ".part" && it->last_write_time(ignored) < old)
      fs::remove(it->path(), ignored);
  }
}

// Removes the entries used longest ago until the rest fits; returns how many went.
int drop_oldest(const fs::path& folder, std::uint64_t bytes_max) {
  auto files = files_of(folder);
  std::ranges::sort(files, {}, &CacheFolder::File::used);
  std::uint64_t total = 0;
  for (const CacheFolder::File& file : files) total += file.bytes;
  int removed = 0;
  std::error_code ignored;
  for (const CacheFolder::File& file : files) {
    if (total <= bytes_max) break;
    total -= file.bytes;
    removed += fs::remove(file.path, ignored) ? 1 : 0;
  }
  return removed;
}

}  // namespace

fs::path CacheFolder::default_path() {
  const auto variable = [](const char* name) -> std::string_view {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string_view() : value;
  };
  if (const auto folder = variable("DIJI_CACHE_DIR"); !folder.empty())
    return folder == "off" ? fs::path() : fs::path(folder);
  if (const auto cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return fs::path(cache) / "diji" / "kernels";
  if (const auto home = variable("HOME"); !home.empty())
    return fs::path(home) / ".cache" / "diji" / "kernels";
  return {};
}

void CacheFolder::warn_once(std::string_view sentence) {
  if (!warned_.exchange(true))
    warn("compile cache {}: {}; kernels are compiled again each time", path_.string(), sentence);
}

bool CacheFolder::usable() {
  if (path_.empty()) return false;
  if (const int known = state_.load(); known != 0) return known == 1;
  const std::string refused = make_private(path_);
  const std::string reason = !refused.empty() ? refused : distrust(path_);
  if (!reason.empty()) warn_once(reason);
  state_ = reason.empty() ? 1 : 2;
  return reason.empty();
}

std::shared_ptr<const MappedFile> CacheFolder::open(const std::string& name) {
  if (!usable()) return nullptr;
  const fs::path path = path_ / name;
  std::error_code status;
  if (!fs::exists(fs::symlink_status(path, status))) return nullptr;
  if (!trusted_entry(path)) {
    warn("{}: not a file of this user alone; it is made again", path.string());
    return nullptr;
  }
  auto file = MappedFile::open(path);
  return file ? *std::move(file) : nullptr;
}

void CacheFolder::touch(const std::string& name) const {
  std::error_code ignored;
  fs::last_write_time(path_ / name, fs::file_time_type::clock::now(), ignored);
}

void CacheFolder::write(const std::string& name, std::span<const std::span<const std::byte>> parts) {
  if (!usable()) return;
  if (const auto written = write_file_atomically(path_ / name, parts); !written)
    warn_once(written.error().message);
}

void CacheFolder::keep_within_limit() {
  if (!usable()) return;
  drop_leftovers(path_);
  drop_oldest(path_, bytes_max_);
}

Result<std::vector<CacheFolder::File>> CacheFolder::files() const {
  std::error_code status;
  if (path_.empty() || !fs::exists(path_, status)) return std::vector<File>();
  if (const std::string reason = distrust(path_); !reason.empty())
    return fail(ErrorCode::io, "compile cache {}: {}", path_.string(), reason);
  return files_of(path_);
}

bool CacheFolder::remove(const fs::path& file) const {
  std::error_code ignored;
  return fs::remove(file, ignored);
}

int CacheFolder::prune(std::uint64_t bytes_max) const {
  drop_leftovers(path_);
  return drop_oldest(path_, bytes_max);
}

}  // namespace diji
