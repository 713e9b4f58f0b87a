// A function of a C-like language while it is written: text with blanks.
#pragma once

#include "codegen/c_language.h"

#include <fmt/format.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

/// A word of a function's text that is not known yet.
struct Blank {
  std::string_view key;
  std::string word;
};
inline Blank blank(std::string_view key, std::string word) { return {key, std::move(word)}; }

/// `format` with "$key" replaced by the blank's word; every key must have one.
std::string filled(std::string_view format, std::span<const Blank> blanks);

/// "item(0), item(1), …"
std::string listed(int count, const std::function<std::string(int)>& item, std::string_view separator = ", ");

/// One function being written.
struct Writer {
  const CFunction& f;
  std::string_view name;
  CDeclarations& declarations;

  std::string type(LaneType type) const { return declarations.type(type); }

  /// The language's words for a function and `format` with its blanks filled in: $T $F $M are the types of
  /// result, operand and mask, $E that of an element, $N the number of lanes, $name the function's own.
  template <typename... Blanks>
  std::string text(std::string_view format, const Blanks&... more) const {
    return std::string(declarations.language().function_words) + bare(format, more...);
  }
  /// The same without those words.
  template <typename... Blanks>
  std::string bare(std::string_view format, const Blanks&... more) const {
    const std::vector<Blank> blanks = {{"T", type(f.type)},
                                       {"F", type(f.from)},
                                       {"M", type(mask_of(f.type))},
                                       {"E", type({f.type.dtype, 1})},
                                       {"N", fmt::format("{}", f.type.lanes)},
                                       {"name", std::string(name)},
                                       more...};
    return filled(format, blanks);
  }
};

}  // namespace diji
