// Entries: "DIJIKRN2", checksum of the rest; key, kernel name and device, each with its length; blob.
#include "runtime/compile_cache.h"

#include "base/files.h"
#include "base/log.h"
#include "base/reader.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace diji {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "DIJIKRN2";
constexpr std::string_view kSuffix = ".kernel";

struct Entry {
  std::string key, kernel, device;
  std::span<const std::byte> blob;
};

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void append_number(std::vector<std::byte>& out, std::uint64_t value) {
  append(out, std::as_bytes(std::span(&value, 1)));
}
void append_text(std::vector<std::byte>& out, std::string_view text) {
  append_number(out, text.size());
  append(out, std::as_bytes(std::span(text)));
}

std::vector<std::byte> serialise(std::string_view key, std::string_view kernel, std::string_view device,
                                 std::span<const std::byte> blob) {
  std::vector<std::byte> body;
  append_text(body, key);
  append_text(body, kernel);
  append_text(body, device);
  append_number(body, blob.size());
  append(body, blob);
  std::vector<std::byte> file;
  append(file, std::as_bytes(std::span(kMagic)));
  append_number(file, XXH3_64bits(body.data(), body.size()));
  append(file, body);
  return file;
}

Result<Entry> parse(std::span<const std::byte> bytes, const std::string& name) {
  Reader reader(bytes, name);
  if (TRY(reader.text(kMagic.size(), "magic")) != kMagic)
    return reader.malformed_at(0, "not a cache entry of this version");
  const auto checksum = TRY(reader.number<std::uint64_t>("checksum"));
  const auto body = bytes.subspan(bytes.size() - reader.remaining());
  if (XXH3_64bits(body.data(), body.size()) != checksum)
    return reader.malformed("the checksum does not fit the contents");
  Entry entry;
  entry.key = TRY(reader.text(TRY(reader.number<std::uint64_t>("length")), "key"));
  entry.kernel = TRY(reader.text(TRY(reader.number<std::uint64_t>("length")), "kernel name"));
  entry.device = TRY(reader.text(TRY(reader.number<std::uint64_t>("length")), "device"));
  entry.blob = TRY(reader.take(TRY(reader.number<std::uint64_t>("length")), "blob"));
  if (!reader.at_end()) return reader.malformed("bytes after the end");
  // A file under another's name would be the right machine code for the wrong kernel.
  if (fs::path(name).stem() != entry.key) return reader.malformed_at(0, "the entry belongs to another key");
  return entry;
}

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

struct Found {
  fs::path path;
  fs::file_time_type used;
  std::uint64_t bytes = 0;
};

std::vector<Found> files_of(const fs::path& folder) {
  std::vector<Found> found;
  std::error_code status;
  for (fs::directory_iterator it(folder, status), end; !status && it != end; it.increment(status)) {
    std::error_code ignored;
    if (it->path().extension() != kSuffix || !it->is_regular_file(ignored)) continue;
    found.push_back({it->path(), it->last_write_time(ignored), it->file_size(ignored)});
  }
  std::ranges::sort(found, {}, &Found::path);
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
  std::ranges::sort(files, {}, &Found::used);
  std::uint64_t total = 0;
  for (const Found& file : files) total += file.bytes;
  int removed = 0;
  std::error_code ignored;
  for (const Found& file : files) {
    if (total <= bytes_max) break;
    total -= file.bytes;
    removed += fs::remove(file.path, ignored) ? 1 : 0;
  }
  return removed;
}

}  // namespace

fs::path CompileCache::default_folder() {
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

CompileCache::CompileCache(fs::path folder, std::uint64_t bytes_max)
    : folder_(std::move(folder)), bytes_max_(bytes_max) {}

std::string CompileCache::key_of(std::string_view text, std::string_view compiler) {
  const std::string all = fmt::format("{}\n{}\n{}", DIJI_VERSION, compiler, text);
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

void CompileCache::warn_once(std::string_view sentence) {
  if (!warned_.exchange(true))
    warn("compile cache {}: {}; kernels are compiled again each time", folder_.string(), sentence);
}

bool CompileCache::usable() {
  if (folder_.empty()) return false;
  if (const int known = state_.load(); known != 0) return known == 1;
  const std::string refused = make_private(folder_);
  const std::string reason = !refused.empty() ? refused : distrust(folder_);
  if (!reason.empty()) warn_once(reason);
  state_ = reason.empty() ? 1 : 2;
  return reason.empty();
}

std::optional<std::vector<std::byte>> CompileCache::find(const std::string& key,
                                                         std::string_view fingerprint) {
  if (!usable()) return std::nullopt;
  const fs::path path = folder_ / (key + std::string(kSuffix));
  std::error_code status;
  if (!fs::exists(fs::symlink_status(path, status))) return std::nullopt;
  if (!trusted_entry(path)) {
    warn("{}: not a file of this user alone; the kernel is compiled again", path.string());
    return std::nullopt;
  }
  const auto bytes = read_file(path);
  if (!bytes) return std::nullopt;
  const auto entry = parse(*bytes, path.string());
  if (!entry) {
    warn("{}; the entry is compiled again", entry.error().message);
    return std::nullopt;
  }
  if (entry->device != fingerprint) return std::nullopt;
  std::error_code ignored;  // the time of last use, for pruning
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return std::vector<std::byte>(entry->blob.begin(), entry->blob.end());
}

void CompileCache::store(const std::string& key, std::string_view kernel, std::string_view fingerprint,
                         std::span<const std::byte> blob) {
  if (!usable()) return;
  const auto written = write_file_atomically(folder_ / (key + std::string(kSuffix)),
                                             serialise(key, kernel, fingerprint, blob));
  if (!written) warn_once(written.error().message);
}

void CompileCache::keep_within_limit() {
  if (!usable()) return;
  drop_leftovers(folder_);
  drop_oldest(folder_, bytes_max_);
}

Result<std::vector<CacheEntry>> CompileCache::list() const {
  std::vector<CacheEntry> entries;
  std::error_code status;
  if (folder_.empty() || !fs::exists(folder_, status)) return entries;
  if (const std::string reason = distrust(folder_); !reason.empty()) {
    return fail(ErrorCode::io, "compile cache {}: {}", folder_.string(), reason);
  }
  for (const Found& file : files_of(folder_)) {
    CacheEntry entry{.key = file.path.stem().string(), .bytes = file.bytes};
    const auto bytes = read_file(file.path);
    const auto parsed =
        bytes ? parse(*bytes, file.path.string()) : Result<Entry>(std::unexpected(bytes.error()));
    if (parsed) {
      entry.kernel = parsed->kernel;
      entry.device = parsed->device;
    } else {
      entry.problem = parsed.error().message;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<int> CompileCache::prune(std::uint64_t bytes_max) {
  const auto entries = TRY(list());
  int removed = 0;
  std::error_code ignored;
  for (const CacheEntry& entry : entries) {
    if (!entry.problem.empty()) {
      removed += fs::remove(folder_ / (entry.key + std::string(kSuffix)), ignored) ? 1 : 0;
    }
  }
  drop_leftovers(folder_);
  return removed + drop_oldest(folder_, bytes_max);
}

}  // namespace diji
