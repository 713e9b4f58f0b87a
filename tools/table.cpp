// Padding, units and line breaks.
#include "tools/table.h"

#include "base/check.h"
#include "tools/output.h"

#include <algorithm>
#include <array>

namespace diji::tools {
namespace {

constexpr std::string_view kGap = "  ";

// Columns a UTF-8 text takes, as far as one code point is one column.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(const std::string& cell, std::size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(cell)), ' ');
  return right ? space + cell : cell + space;
}

}  // namespace

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
}

void Table::add(std::vector<std::string> cells) {
  CHECK(cells.size() == headings_.size(), "a cell for every column");
  rows_.push_back(std::move(cells));
}

void Table::print() const {
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings_) widths.push_back(width_of(heading));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  const auto print_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += kGap;
      line += padded(row[i], widths[i], right_[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    tools::print("{}\n", line);
  };
  print_row(headings_);
  for (const auto& row : rows_) print_row(row);
}

std::string text_of_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string text_of_ms(double milliseconds) {
  if (milliseconds >= 1000) return fmt::format("{:.2f} s", milliseconds / 1000);
  if (milliseconds >= 1) return fmt::format("{:#.3g} ms", milliseconds);
  return fmt::format("{:#.3g} us", milliseconds * 1000);
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string result;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find(' '), text.size());
    if (!result.empty()) {
      const bool breaks = column + 1 + length > width;
      result += breaks ? "\n" + std::string(indent, ' ') : " ";
      column = breaks ? indent : column + 1;
    }
    result += text.substr(0, length);
    column += length;
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return result;
}

}  // namespace diji::tools
