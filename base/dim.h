// A tensor's size as an integer expression over named symbols: exact shape arithmetic for every size at once.
#pragma once

#include "base/error.h"

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

/// Inclusive range of an expression's value. Symbols default to what a tensor's size can be.
struct Bounds {
  std::int64_t min = 0;
  std::int64_t max = std::int64_t{1} << 40;
  bool operator==(const Bounds&) const = default;
};

/// What each symbol is worth in one run.
using Bindings = std::map<std::string, std::int64_t, std::less<>>;

/// An immutable expression: + - ·, floor division, floor mod, min, max, select, over symbols and integers.
///
/// Every Dim is kept in one canonical form, a polynomial: a constant plus a sorted sum of coefficient ·
/// product of sorted atoms, where an atom is a symbol or a floordiv/mod/min/max/select of canonical Dims. So
/// equal polynomials compare equal however they were built, and `equal` is exact for what shape arithmetic
/// produces. Arithmetic that overflows int64, or an expression of more than 10,000 nodes, gives an invalid
/// Dim, which stays invalid and is refused where a graph is built. Values are cheap to copy (shared nodes)
/// and safe to read from many threads.
class Dim {
 public:
  Dim() : Dim(std::int64_t{0}) {}
  Dim(std::int64_t value);  // NOLINT: a size is a Dim wherever a Dim is wanted
  Dim(int value) : Dim(static_cast<std::int64_t>(value)) {}

  /// The same name with the same bounds is the same symbol.
  static Dim symbol(std::string_view name, Bounds bounds = {});
  static Dim invalid();

  bool is_valid() const;
  std::optional<std::int64_t> constant() const;
  bool is(std::int64_t value) const { return constant() == value; }
  /// The name, when the expression is one bare symbol.
  std::optional<std::string_view> symbol_name() const;
  /// Interval arithmetic over the symbols' bounds; saturates instead of overflowing.
  Bounds bounds() const;
  /// All symbols in it with their bounds, sorted by name.
  std::map<std::string, Bounds, std::less<>> symbols() const;

  /// Errors: a symbol without binding or outside of its bounds, division by zero, overflow. The sentence
  /// names the expression. Computed in 128 bits, so that only a result that does not fit int64 overflows.
  Result<std::int64_t> evaluate(const Bindings& bindings) const;
  /// Every bound symbol replaced by an expression; the others stay.
  Dim substitute(const std::map<std::string, Dim, std::less<>>& values) const;

  /// "2*H*W + (H + 1) floordiv 2": what parse() reads back to an equal Dim.
  std::string text() const;
  /// `known` gives the bounds of symbols (a name that is not in it is an error). Errors say the column.
  static Result<Dim> parse(std::string_view text, const std::map<std::string, Bounds, std::less<>>& known);

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  /// Rounds toward minus infinity, as Python's //; c·x/c and (c·x + r)/c are simplified where exact. The
  /// divisor 0 gives an invalid Dim.
  friend Dim floor_div(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);
  /// Decided at once where the bounds decide.
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  /// `a < b ? then : otherwise`; a branch that is known not to be taken may be invalid.
  friend Dim select_less(const Dim& a, const Dim& b, const Dim& then, const Dim& otherwise);

  friend bool operator==(const Dim& a, const Dim& b);
  /// A total order (by structure) for canonical sorting; no meaning beyond that.
  friend std::strong_ordering operator<=>(const Dim& a, const Dim& b);
  std::uint64_t hash() const;

  struct Expression;  ///< the canonical polynomial; private to dim*.cpp

 private:
  explicit Dim(std::shared_ptr<const Expression> expression);
  std::shared_ptr<const Expression> expression_;
};

/// Sizes, outermost first.
using Shape = std::vector<Dim>;

/// "[N, 2048]"
std::string text_of(const Shape& shape);
/// The product of all sizes (1 for a scalar).
Dim element_count(const Shape& shape);
/// All sizes with symbols replaced by their values.
Result<std::vector<std::int64_t>> evaluate(const Shape& shape, const Bindings& bindings);

}  // namespace diji
