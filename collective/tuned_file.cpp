// The variable, the cache's folder, and one line of what rank 0 says at the start.
#include "collective/tuned_file.h"

#include "base/cores.h"
#include "base/files.h"
#include "base/log.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>

namespace diji::collective {
namespace {

constexpr char kNoTable = '!';

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::uint64_t mixed(std::uint64_t hash, std::string_view text) {  // FNV-1a
  constexpr std::uint64_t kPrime = 1099511628211;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * kPrime;
  return hash;
}

}  // namespace

Result<Tuning> read_tuning(const std::filesystem::path& file) {
  const auto bytes = TRY(read_file(file));
  auto tuning = parse_tuning({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
  if (!tuning) tuning.error().file = file.string();
  return tuning;
}

// Lines that say what a processor is; others (clock rates, addresses) differ from core to core and day to
// day.
std::string machine_fingerprint() {
  std::uint64_t hash = 14695981039346656037u;
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    for (const std::string_view key : {"processor", "model name", "CPU implementer", "CPU part", "uarch",
                                       "physical id", "core id", "hart isa"}) {
      if (line.starts_with(key)) hash = mixed(hash, line);
    }
  }
  std::ifstream nodes("/sys/devices/system/node/online");
  std::string line;
  std::getline(nodes, line);
  return fmt::format("{:016x}",
                     mixed(mixed(hash, line), fmt::format("{:.2f}", cgroup_cores("/").value_or(0))));
}

std::filesystem::path tuned_file() {
  std::filesystem::path folder;
  if (const std::string cache = variable("DIJI_CACHE_DIR"); !cache.empty()) {
    if (cache == "off") return {};
    folder = cache;
  } else if (const std::string shared = variable("XDG_CACHE_HOME"); !shared.empty()) {
    folder = std::filesystem::path(shared) / "diji";
  } else if (const std::string home = variable("HOME"); !home.empty()) {
    folder = std::filesystem::path(home) / ".cache" / "diji";
  } else {
    return {};
  }
  return folder / "collective" / fmt::format("tuning-{}-{}.txt", DIJI_VERSION, machine_fingerprint());
}

Result<Tuning> tuning_from_environment() {
  const std::string text = variable("DIJI_TUNING");
  if (text == "off") return Tuning{};
  if (text.starts_with('@')) {
    auto tuning = read_tuning(text.substr(1));
    if (!tuning) tuning.error().message = fmt::format("DIJI_TUNING={}: {}", text, tuning.error().message);
    return tuning;
  }
  if (!text.empty()) {
    auto tuning = parse_tuning(text, "DIJI_TUNING");
    if (!tuning) tuning.error().code = ErrorCode::usage;
    return tuning;
  }
  const std::filesystem::path file = tuned_file();
  std::error_code ignored;
  if (file.empty() || !std::filesystem::exists(file, ignored)) return Tuning{};
  auto tuning = read_tuning(file);
  if (tuning) return tuning;
  warn("{}; calls take the built-in plans (diji tune collective writes the file again)",
       tuning.error().message);
  return Tuning{};
}

Result<void> save_tuning(const std::filesystem::path& file, const Tuning& tuning) {
  std::string text = fmt::format(
      "# Plans of collectives, as diji {} measured them on the machine {}; `DIJI_TUNING=off` does "
      "without.\n",
      DIJI_VERSION, machine_fingerprint());
  for (std::size_t begin = 0; begin < tuning.rows.size();) {
    std::size_t end = begin + 1;
    while (end < tuning.rows.size() && tuning.rows[end].same_group(tuning.rows[begin])) ++end;
    const auto first = tuning.rows.begin();
    text += text_of(
        Tuning{{first + static_cast<std::ptrdiff_t>(begin), first + static_cast<std::ptrdiff_t>(end)}});
    text += '\n';
    begin = end;
  }
  std::error_code ignored;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), ignored);
  return write_file_atomically(file, text);
}

std::string carried(const Result<Tuning>& tuning) {
  if (tuning) return text_of(*tuning);
  std::string line =
      fmt::format("{}{} {}", kNoTable, static_cast<int>(tuning.error().code), tuning.error().message);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

Result<Tuning> received(std::string_view line) {
  if (!line.starts_with(kNoTable)) {
    auto tuning = parse_tuning(line, "rank 0's table of plans");
    if (!tuning) tuning.error().code = ErrorCode::corrupted;
    return tuning;
  }
  line.remove_prefix(1);
  const std::size_t blank = std::min(line.find(' '), line.size());
  int code = 0;
  const auto [end, problem] = std::from_chars(line.data(), line.data() + blank, code);
  if (problem != std::errc() || end != line.data() + blank || code < 0 ||
      code > static_cast<int>(ErrorCode::aborted) || blank == line.size())
    return fail(ErrorCode::corrupted, "rank 0's table of plans is something else: '{}'", line);
  return fail(static_cast<ErrorCode>(code), "rank 0: {}", line.substr(blank + 1));
}

}  // namespace diji::collective
