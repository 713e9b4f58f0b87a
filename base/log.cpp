// The log sink: one line a message on stderr.
#include "base/log.h"

#include <atomic>
#include <cstdio>

namespace diji {
namespace {

std::atomic<LogLevel> level_max{LogLevel::warning};

}  // namespace

void set_log_level(LogLevel level) { level_max.store(level, std::memory_order_relaxed); }

void log_message(LogLevel level, std::string_view text) {
  if (level > level_max.load(std::memory_order_relaxed)) return;
  constexpr std::string_view kNames[] = {"error", "warning", "info", "debug"};
  const std::string line = fmt::format("diji: {}: {}\n", kNames[static_cast<std::size_t>(level)], text);
  std::fwrite(line.data(), 1, line.size(), stderr);  // one call, so that lines of threads do not mix
}

}  // namespace diji
