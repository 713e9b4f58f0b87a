// usable_cores: the affinity mask and the CPU quota of cgroups, versions 1 and 2.
#include "base/cores.h"

#include "base/files.h"
#include "base/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace diji {
namespace {

std::string text_of_file(const std::filesystem::path& path) {
  const auto bytes = read_file(path);
  if (!bytes) return "";
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

// The word before the separator, which is removed together with it.
std::string_view next_word(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// "150000 100000\n" is 1.5 cores. "max 100000" (version 2) and "-1 100000" (version 1) set no limit.
std::optional<double> cores_of_quota(std::string_view text) {
  double numbers[2] = {};
  for (double& number : numbers) {
    const std::string_view word = next_word(text, ' ');
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (code != std::errc() || number <= 0) return std::nullopt;
  }
  return numbers[0] / numbers[1];
}

std::optional<double> smaller(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// A parent's quota holds for its children. In a container without a cgroup namespace the path is the host's
// and only its root is mounted: levels that are not there are skipped.
template <typename QuotaIn>
std::optional<double> smallest_up(const std::filesystem::path& mount, std::string_view group,
                                  QuotaIn quota_in) {
  std::optional<double> cores;
  for (auto level = std::filesystem::path(group).relative_path();; level = level.parent_path()) {
    cores = smaller(cores, quota_in(mount / level));
    if (level.empty()) return cores;
  }
}

// Of the calling thread where `process` is 0 or its own.
std::vector<bool> affinity_of(int process) {
  // The kernel refuses a mask smaller than its own: doubled until it fits.
  constexpr std::size_t kCpusMax = std::size_t{1} << 20;
  for (std::size_t cpus = 1024; cpus <= kCpusMax; cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(cpus),
                                                                [](cpu_set_t* set) { CPU_FREE(set); });
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    if (mask == nullptr) break;
    if (sched_getaffinity(process == getpid() ? 0 : process, bytes, mask.get()) != 0) continue;
    std::vector<bool> allowed(cpus);
    for (std::size_t cpu = 0; cpu < cpus; ++cpu) allowed[cpu] = CPU_ISSET_S(cpu, bytes, mask.get()) != 0;
    return allowed;
  }
  return {};
}

}  // namespace

std::optional<double> cgroup_cores(const std::filesystem::path& root) {
  const std::filesystem::path mount = root / "sys/fs/cgroup";
  const auto quota_v2 = [](const std::filesystem::path& folder) {
    return cores_of_quota(text_of_file(folder / "cpu.max"));
  };
  const auto quota_v1 = [](const std::filesystem::path& folder) {
    const std::string quota = text_of_file(folder / "cpu.cfs_quota_us");
    const std::string period = text_of_file(folder / "cpu.cfs_period_us");
    return cores_of_quota(quota.substr(0, quota.find('\n')) + " " + period);
  };
  std::optional<double> cores;
  const std::string groups = text_of_file(root / "proc/self/cgroup");
  for (std::string_view rest = groups; !rest.empty();) {
    std::string_view line = next_word(rest, '\n');  // "0::/path" or "4:cpu,cpuacct:/path"
    const std::string_view hierarchy = next_word(line, ':');
    std::string_view controllers = next_word(line, ':');
    if (hierarchy == "0" && controllers.empty()) cores = smaller(cores, smallest_up(mount, line, quota_v2));
    const std::string folder(controllers);
    bool has_cpu = false;
    while (!controllers.empty()) has_cpu |= next_word(controllers, ',') == "cpu";
    if (!has_cpu) continue;
    cores = smaller(cores, smallest_up(mount / "cpu", line, quota_v1));
    cores = smaller(cores, smallest_up(mount / folder, line, quota_v1));
  }
  return cores;
}

int usable_cores() {
  const int self = 0;
  return usable_cores(std::span(&self, 1));
}

int usable_cores(std::span<const int> processes) {
  std::vector<bool> together;
  for (const int process : processes) {
    const std::vector<bool> allowed = affinity_of(process);
    together.resize(std::max(together.size(), allowed.size()));
    for (std::size_t cpu = 0; cpu < allowed.size(); ++cpu) together[cpu] = together[cpu] || allowed[cpu];
  }
  auto affinity = static_cast<int>(std::ranges::count(together, true));
  if (affinity == 0) affinity = static_cast<int>(std::thread::hardware_concurrency());
  // A part of a core is a core: the quota is a share of time, and two threads on 1.5 cores finish before one
  // does.
  const double quota = std::ceil(cgroup_cores("/").value_or(affinity));
  return std::max(1, quota < affinity ? static_cast<int>(quota) : affinity);
}

}  // namespace diji
