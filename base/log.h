// Warnings and progress for people, on stderr. The level is the one piece of global state.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace diji {

enum class LogLevel : unsigned char { error, warning, info, debug };

/// Messages above the level are dropped. Default: warning. Thread-safe.
void set_log_level(LogLevel level);
void log_message(LogLevel level, std::string_view text);

template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace diji
