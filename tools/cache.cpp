// `diji cache`: the compiled kernels on disk.
#include "runtime/compile_cache.h"
#include "tools/context.h"
#include "tools/json.h"
#include "tools/output.h"
#include "tools/table.h"

#include <array>

namespace diji::tools {
namespace {

constexpr std::array<std::string_view, 4> kActions = {"ls", "verify", "prune", "path"};
constexpr std::array kOptions = {
    OptionDef{"--all", "", "ls: every entry, not only how many there are"},
    OptionDef{"--max-bytes", "BYTES",
              "prune: what may stay, such as 100M (default: 4G); damaged entries always go"},
};

Result<int> list(const CompileCache& cache, bool json, bool all) {
  const std::vector<CacheEntry> entries = TRY(cache.list());
  if (json) {
    Json rows = Json::array();
    for (const CacheEntry& entry : entries) {
      rows.push_back(
          {{"key", entry.key}, {"bytes", entry.bytes}, {"kernel", entry.kernel}, {"device", entry.device}});
    }
    print_json({{"entries", rows}});
    return 0;
  }
  Table table({"key", ">size", "kernel", "device"});
  std::uint64_t total = 0, damaged = 0;
  for (const CacheEntry& entry : entries) {
    const bool good = entry.problem.empty();
    total += entry.bytes;
    damaged += good ? 0 : 1;
    table.add({entry.key, text_of_bytes(entry.bytes), good ? entry.kernel : "damaged", entry.device});
  }
  print("{} entries, {}{} in {}{}\n", entries.size(), text_of_bytes(total),
        damaged == 0 ? "" : fmt::format(", {} damaged", damaged), cache.folder().string(),
        all || entries.empty() ? "" : "; --all lists them");
  if (all && !table.empty()) table.print();
  return 0;
}

Result<int> verify(const CompileCache& cache, bool json) {
  const std::vector<CacheEntry> entries = TRY(cache.list());
  Json damaged = Json::array();
  for (const CacheEntry& entry : entries) {
    if (entry.problem.empty()) continue;
    damaged.push_back({{"key", entry.key}, {"bytes", entry.bytes}, {"problem", entry.problem}});
    print_aside("diji: {}\n", entry.problem);
  }
  if (json) {
    print_json({{"entries", entries.size()}, {"damaged", damaged}});
  } else {
    print("{} entries, {} damaged{}\n", entries.size(), damaged.size(),
          damaged.empty() ? "" : "; they are not used, and diji cache prune removes them");
  }
  return damaged.empty() ? 0 : kAnswerIsNo;
}

Result<int> prune(CompileCache& cache, std::uint64_t bytes_max, bool json) {
  const int removed = TRY(cache.prune(bytes_max));
  const std::vector<CacheEntry> entries = TRY(cache.list());
  std::uint64_t total = 0;
  for (const CacheEntry& entry : entries) total += entry.bytes;
  if (json) {
    print_json({{"removed", removed}, {"entries", entries.size()}, {"bytes", total}});
  } else {
    print("{} removed, {} left with {}\n", removed, entries.size(), text_of_bytes(total));
  }
  return 0;
}

Result<int> path(const CompileCache& cache, bool json) {
  const std::string folder = cache.folder().string();
  if (json) {
    print_json({{"path", folder.empty() ? Json() : Json(folder)}});
  } else {
    print("{}\n", folder.empty() ? "off" : folder);
  }
  return 0;
}

Result<int> run(Context& context, const Arguments& arguments) {
  const std::string action = arguments.operands().empty() ? "ls" : arguments.operands()[0];
  const std::size_t number = TRY(find_choice("diji cache", action, kActions));
  if (arguments.has("--max-bytes") && action != "prune") {
    return fail(ErrorCode::usage, "--max-bytes is an option of diji cache prune only");
  }
  if (arguments.has("--all") && action != "ls")
    return fail(ErrorCode::usage, "--all is an option of diji cache ls only");
  const std::uint64_t bytes_max = TRY(arguments.bytes("--max-bytes", CompileCache::kBytesMax));
  CompileCache cache;
  switch (number) {
    case 0: return list(cache, context.json(), arguments.has("--all"));
    case 1: return verify(cache, context.json());
    case 2: return prune(cache, bytes_max, context.json());
    default: return path(cache, context.json());
  }
}

}  // namespace

constexpr Verb kCacheVerb = {
    .name = "cache",
    .summary = "the compile cache: list it, check it, make it smaller, say where it is",
    .example = "cache prune --max-bytes 100M",
    .operands = {"[ls|verify|prune|path]", "what to do (default: ls)", 0, 1},
    .options = kOptions,
    .run = run,
};

}  // namespace diji::tools
