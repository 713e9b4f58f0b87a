// Private to dim*.cpp: the canonical polynomial behind a Dim and the nodes it is made of.
#pragma once

#include "base/dim.h"
#include "base/dim_interval.h"

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace diji {

/// An expression written out as a tree has at most this many nodes, so that walking, comparing and printing
/// one stay cheap although nodes are shared. Shape arithmetic of real models stays below a hundred.
inline constexpr std::int64_t kDimSizeMax = 10'000;
/// Atoms nest at most this deep: every walk recurses.
inline constexpr int kDimDepthMax = 60;

enum class AtomKind : std::uint8_t { symbol, floordiv, mod, min, max, select };

/// What a polynomial treats as a variable. `operands`: floordiv and mod {dividend, divisor}; min and max two
/// or more, sorted; select {a, b, then, otherwise}.
struct Atom {
  AtomKind kind = AtomKind::symbol;
  std::string name;  ///< of a symbol
  Bounds bounds;     ///< of a symbol
  std::vector<Dim> operands;

  // Derived once, when the atom is made:
  std::uint64_t hash = 0;
  Interval interval;
  std::int64_t size = 1;
  int depth = 0;
};
using AtomPointer = std::shared_ptr<const Atom>;
using Monomial = std::vector<AtomPointer>;  ///< sorted; a power repeats its atom

struct Term {
  std::int64_t coefficient = 0;
  Monomial atoms;
};

/// A null pointer in a Dim is the invalid Dim.
struct Dim::Expression {
  std::int64_t constant = 0;
  std::vector<Term> terms;  ///< sorted by compare_monomials, none zero, none without atoms

  // Derived once, when the expression is made:
  std::uint64_t hash = 0;
  Interval interval;
  std::int64_t size = 1;
  int depth = 0;

  /// From terms that are canonical already; invalid beyond kDimSizeMax or kDimDepthMax.
  static Dim make(std::int64_t constant, std::vector<Term> terms);
  /// From terms in any order, which may repeat and have no atoms.
  static Dim sum(std::int64_t constant, std::vector<Term> terms);
  static Dim make_atom(AtomKind kind, std::vector<Dim> operands);
  /// The expression of a valid Dim.
  static const Expression& of(const Dim& dim) { return *dim.expression_; }
  /// The atom, when the expression is one atom and nothing else.
  const Atom* bare_atom() const {
    const bool bare = constant == 0 && terms.size() == 1 && terms[0].coefficient == 1;
    return bare && terms[0].atoms.size() == 1 ? terms[0].atoms[0].get() : nullptr;
  }
};

std::strong_ordering compare(const Atom& a, const Atom& b);
/// Graded lexicographic: higher degree first, then by atoms. Multiplying both sides by the same atoms keeps
/// the order, which polynomial division needs.
std::strong_ordering compare_monomials(const Monomial& a, const Monomial& b);

struct AtomBefore {
  bool operator()(const AtomPointer& a, const AtomPointer& b) const { return compare(*a, *b) < 0; }
};

}  // namespace diji
