// Tables for people: columns as wide as their widest cell.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace diji::tools {

/// Rows of cells. A column whose heading begins with '>' is set to the right; the last column is not padded.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);
  /// As many cells as headings (CHECKed).
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  /// To stdout, headings first.
  void print() const;

 private:
  std::vector<bool> right_;
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

/// "1.5 GiB"
std::string text_of_bytes(std::uint64_t bytes);
/// Three digits with a unit: "1.24 ms"
std::string text_of_ms(double milliseconds);
/// `text` in lines of at most `width` columns, each line after the first indented by `indent` spaces.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace diji::tools
