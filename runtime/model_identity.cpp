// A small text for each model: "DIJIMDL1 <checksum>", the digest, and a line a file: its status and its name.
#include "runtime/model_identity.h"

#include "base/checksum.h"
#include "base/log.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <sstream>

namespace diji {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "DIJIMDL1";

struct Status {
  std::string text;  ///< "" where there is no such file
  std::int64_t changed = 0;
};

Status status_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return {.text = fmt::format("{}:{}:{}:{}.{:09}:{}.{:09}", status.st_dev, status.st_ino, status.st_size,
                              status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ctim.tv_sec,
                              status.st_ctim.tv_nsec),
          .changed = status.st_ctim.tv_sec};
}

std::string with_checksum(const std::string& body) {
  return fmt::format("{} {:016x}\n{}", kMagic, checksum_of(body), body);
}

}  // namespace

ModelIdentity::ModelIdentity(CacheFolder& folder, const fs::path& model, int settled_seconds)
    : folder_(folder), settled_seconds_(settled_seconds) {
  std::error_code status;
  model_ = fs::absolute(model, status);
  const std::string path = model_.string();
  name_ = fmt::format("{:016x}.model", checksum_of(path));
  before_ = status_of(model_).text;
}

std::optional<std::string> ModelIdentity::known() {
  const auto file = folder_.open(name_);
  if (file == nullptr || before_.empty()) return std::nullopt;
  const std::string text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const std::size_t body = text.find('\n');
  if (body == std::string::npos || with_checksum(text.substr(body + 1)) != text) return std::nullopt;
  std::istringstream lines(text.substr(body + 1));
  std::string digest, line;
  std::getline(lines, digest);
  for (bool first = true; std::getline(lines, line); first = false) {
    const std::size_t space = line.find(' ');
    const fs::path name = space == std::string::npos ? fs::path() : fs::path(line.substr(space + 1));
    if (line.substr(0, space) != (first ? before_ : status_of(model_.parent_path() / name).text))
      return std::nullopt;
    if (first && name != model_) return std::nullopt;
  }
  folder_.touch(name_);
  return digest;
}

void ModelIdentity::remember(const std::string& digest, const std::vector<std::string>& external) {
  const Status after = status_of(model_);
  if (before_.empty() || after.text != before_) return;
  std::int64_t changed = after.changed;
  std::string body = fmt::format("{}\n{} {}\n", digest, after.text, model_.string());
  for (const std::string& name : external) {
    const Status status = status_of(model_.parent_path() / name);
    if (status.text.empty()) return;
    changed = std::max(changed, status.changed);
    body += fmt::format("{} {}\n", status.text, name);
  }
  // Names with line breaks would read back as something else.
  if (std::ranges::count(body, '\n') != std::ssize(external) + 2) return;
  if (std::time(nullptr) - changed < settled_seconds_) return;
  const std::string text = with_checksum(body);
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  folder_.write(name_, std::span(&part, 1));
}

}  // namespace diji
