// Entries: "DIJIKRN2", checksum of the rest; key, kernel name and device, each with its length; blob.
#include "runtime/compile_cache.h"

#include "base/checksum.h"
#include "base/log.h"
#include "base/reader.h"
#include "runtime/image.h"

#include <fmt/format.h>

#include <algorithm>

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
  append_number(file, checksum_of(body));
  append(file, body);
  return file;
}

Result<Entry> parse(std::span<const std::byte> bytes, const std::string& name) {
  Reader reader(bytes, name);
  if (TRY(reader.text(kMagic.size(), "magic")) != kMagic)
    return reader.malformed_at(0, "not a cache entry of this version");
  const auto checksum = TRY(reader.number<std::uint64_t>("checksum"));
  const auto body = bytes.subspan(bytes.size() - reader.remaining());
  if (checksum_of(body) != checksum) return reader.malformed("the checksum does not fit the contents");
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

// What `diji cache ls` says of a file.
CacheEntry entry_of(const CacheFolder::File& file) {
  CacheEntry entry{.key = file.path.stem().string(), .bytes = file.bytes};
  const auto bytes = MappedFile::open(file.path);
  const auto parsed = [&]() -> Result<void> {
    if (!bytes) return std::unexpected(bytes.error());
    if (file.path.extension() == kSuffix) {
      const Entry kernel = TRY(parse((*bytes)->bytes(), file.path.string()));
      entry.kernel = kernel.kernel;
      entry.device = kernel.device;
    } else if (file.path.extension() == Image::kSuffix) {
      const Image image = TRY(Image::parse(*bytes));
      TRY(image.check_constants(nullptr));
      entry.kernel = "model " + image.origin("model");
      entry.device = image.origin("device");
    } else {
      entry.kernel = "name of a model";
    }
    return {};
  }();
  if (!parsed) entry.problem = parsed.error().message;
  return entry;
}

}  // namespace

CompileCache::CompileCache(fs::path folder, std::uint64_t bytes_max)
    : folder_(std::move(folder), bytes_max) {}

std::string CompileCache::key_of(std::string_view text, std::string_view compiler) {
  return digest_of(fmt::format("{}\n{}\n{}", DIJI_VERSION, compiler, text));
}

std::optional<std::vector<std::byte>> CompileCache::find(const std::string& key,
                                                         std::string_view fingerprint) {
  const std::string name = key + std::string(kSuffix);
  const auto file = folder_.open(name);
  if (file == nullptr) return std::nullopt;
  const auto entry = parse(file->bytes(), file->path());
  if (!entry) {
    warn("{}; the entry is compiled again", entry.error().message);
    return std::nullopt;
  }
  if (entry->device != fingerprint) return std::nullopt;
  folder_.touch(name);
  return std::vector<std::byte>(entry->blob.begin(), entry->blob.end());
}

void CompileCache::store(const std::string& key, std::string_view kernel, std::string_view fingerprint,
                         std::span<const std::byte> blob) {
  const auto bytes = serialise(key, kernel, fingerprint, blob);
  const std::span<const std::byte> part(bytes);
  folder_.write(key + std::string(kSuffix), std::span(&part, 1));
}

Result<std::vector<CacheEntry>> CompileCache::list() const {
  std::vector<CacheEntry> entries;
  for (const CacheFolder::File& file : TRY(folder_.files())) entries.push_back(entry_of(file));
  return entries;
}

Result<int> CompileCache::prune(std::uint64_t bytes_max) {
  int removed = 0;
  for (const CacheFolder::File& file : TRY(folder_.files())) {
    if (!entry_of(file).problem.empty()) removed += folder_.remove(file.path) ? 1 : 0;
  }
  return removed + folder_.prune(bytes_max);
}

}  // namespace diji
