// Filling in the blanks of a function's text.
#include "codegen/c_writer.h"

#include "base/check.h"

#include <algorithm>
#include <cctype>

namespace diji {

std::string filled(std::string_view format, std::span<const Blank> blanks) {
  std::string result;
  for (std::size_t at = 0; at < format.size();) {
    if (format[at] != '$') {
      result += format[at++];
      continue;
    }
    std::size_t end = ++at;
    while (end < format.size() && std::isalpha(static_cast<unsigned char>(format[end])) != 0) ++end;
    const auto found = std::ranges::find(blanks, format.substr(at, end - at), &Blank::key);
    CHECK(found != blanks.end(), "every blank has a word");
    result += found->word;
    at = end;
  }
  return result;
}

std::string listed(int count, const std::function<std::string(int)>& item, std::string_view separator) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    if (i > 0) all += separator;
    all += item(i);
  }
  return all;
}

}  // namespace diji
