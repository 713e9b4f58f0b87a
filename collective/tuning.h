// The table that says which plan a call takes, and its text, which is also what people write to override it.
#pragma once

#include "base/error.h"
#include "collective/operation.h"
#include "collective/plan.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace diji::collective {

/// What of the elements a plan's speed depends on: partial results of narrow floats travel twice as wide.
enum class ElementClass : std::uint8_t { any, floating, narrow, integer };
ElementClass class_of(ElementType type);
/// "any", "float", "narrow" (16 bits and fewer), "integer" (bool too)
std::string_view name_of(ElementClass elements);

/// "ring", "direct/slices=4", "auto"
struct PlanWords {
  std::string algorithm;  ///< "auto": as if there were no table
  int slices = 0;         ///< 0: as many as its size asks for
  bool operator==(const PlanWords&) const = default;
};
inline constexpr int kSlicesMax = 1024;
std::string text_of(const PlanWords& plan);
/// Errors: usage, with the operation's algorithms and the nearest one.
Result<PlanWords> parse_plan(Operation operation, std::string_view text);

/// From and to, both included.
struct CountRange {
  static constexpr int kMost = std::numeric_limits<int>::max();
  int from = 1;
  int to = kMost;
  bool contains(int count) const { return count >= from && count <= to; }
  bool operator==(const CountRange&) const = default;
};

/// Calls of one operation on elements of one class, in some worlds, up to a size.
struct TuningRow {
  static constexpr std::int64_t kAnySize = std::numeric_limits<std::int64_t>::max();
  Operation operation = Operation::all_reduce;
  ElementClass elements = ElementClass::any;
  CountRange world;
  CountRange hosts;
  std::int64_t bytes_max = kAnySize;  ///< of the whole vector (vector_count)
  PlanWords plan;

  bool covers(Operation other, ElementType type, const WorldShape& shape, std::int64_t bytes) const;
  /// Whether both are of the same operation, class and worlds.
  bool same_group(const TuningRow& other) const;
  bool operator==(const TuningRow&) const = default;
};

/// Of the rows that cover a call the first one whose plan supports it decides; where there is none, the
/// built-in choice.
struct Tuning {
  std::vector<TuningRow> rows;
  bool operator==(const Tuning&) const = default;
};

/// The longest text of a table: it travels in what a rank says of itself.
inline constexpr std::size_t kTuningBytesMax = 32 << 10;

/// One line, which parse_tuning reads back.
std::string text_of(const Tuning& tuning);

/// Rows, separated by semicolons or ends of lines; # starts a comment.
///
///     all_reduce: <=4K exchange; <=1M direct/slices=4; hierarchical
///     broadcast narrow world=17.. hosts=2..4: auto
///
/// OPERATION [float|narrow|integer] [world=N|N..|..N|N..M] [hosts=…]: stands before the first row of a group;
/// a row is [<=SIZE] PLAN, sizes in bytes with K, M or G. Errors: malformed, naming source, line, column and
/// the nearest valid word.
Result<Tuning> parse_tuning(std::string_view text, std::string_view source);

}  // namespace diji::collective
