// What floordiv, mod, min, max and select simplify to, so that equal shape arithmetic becomes equal
// expressions.
//
// Every rule is exact for all values within the bounds. An atom is made only when no rule applies to its
// operands, so building an expression again from its own parts (parse, substitute) gives the same expression.
#include "base/dim_expression.h"
#include "base/dim_interval.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

namespace diji {
namespace {

// A polynomial division that takes longer is not one that shape arithmetic means.
constexpr int kDivisionStepsMax = 256;

using Expression = Dim::Expression;

const Interval& interval_of(const Dim& dim) { return Expression::of(dim).interval; }

struct Division {
  Dim quotient;
  Dim remainder;
};

std::uint64_t magnitude(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return value < 0 ? 0 - bits : bits;
}

// The greatest common divisor of the terms' coefficients and `start`; 1 when it does not fit.
std::int64_t common_factor(const Expression& expression, std::uint64_t start) {
  std::uint64_t factor = start;
  for (const Term& term : expression.terms) factor = std::gcd(factor, magnitude(term.coefficient));
  return narrow(factor).value_or(1);
}

// Every term divided by factor · atoms, which divide it; the constant is rounded down. Invalid if the factor
// is -1 and a coefficient is INT64_MIN.
Dim divided_by(const Dim& dim, std::int64_t factor, const Monomial& atoms) {
  const Expression& expression = Expression::of(dim);
  const auto constant = narrow(floor_quotient(Wide{expression.constant}, Wide{factor}));
  if (!constant) return Dim::invalid();
  std::vector<Term> terms;
  for (const Term& term : expression.terms) {
    const auto coefficient = narrow(Wide{term.coefficient} / factor);
    if (!coefficient) return Dim::invalid();
    Term& divided = terms.emplace_back(*coefficient, Monomial());
    std::ranges::set_difference(term.atoms, atoms, std::back_inserter(divided.atoms), AtomBefore());
  }
  return Expression::sum(*constant, std::move(terms));
}

Monomial common_atoms(const Monomial& a, const Monomial& b) {
  Monomial common;
  std::ranges::set_intersection(a, b, std::back_inserter(common), AtomBefore());
  return common;
}

Dim product_of(std::int64_t factor, const Monomial& atoms) { return Expression::sum(0, {{factor, atoms}}); }

struct Cancelled {
  Dim a;
  Dim b;
  Dim factor;
};

// a / b in lowest terms: without a common integer, without common atoms that cannot be 0, b's leading sign
// positive. (g·a) floordiv (g·b) is a floordiv b and (g·a) mod (g·b) is g·(a mod b), for every g but 0.
// Nothing if that is so.
std::optional<Cancelled> cancelled(const Dim& a, const Dim& b) {
  const Expression& x = Expression::of(a);
  const Expression& y = Expression::of(b);
  const auto constants = std::gcd(magnitude(x.constant), magnitude(y.constant));
  const auto of_terms = magnitude(common_factor(x, constants));
  std::int64_t factor = common_factor(y, of_terms);
  if ((y.terms.empty() ? y.constant : y.terms[0].coefficient) < 0) factor = -factor;
  Monomial atoms;
  if (!y.terms.empty() && x.constant == 0 && y.constant == 0) {
    atoms = y.terms[0].atoms;
    for (const Term& term : x.terms) atoms = common_atoms(atoms, term.atoms);
    for (const Term& term : y.terms) atoms = common_atoms(atoms, term.atoms);
    std::erase_if(atoms, [](const AtomPointer& atom) { return !excludes_zero(atom->interval); });
  }
  if (factor == 1 && atoms.empty()) return std::nullopt;
  Cancelled result = {divided_by(a, factor, atoms), divided_by(b, factor, atoms), product_of(factor, atoms)};
  if (!result.a.is_valid() || !result.b.is_valid() || !result.factor.is_valid()) return std::nullopt;
  return result;
}

Term leading_term(const Expression& expression) {
  return expression.terms.empty() ? Term{expression.constant, {}} : expression.terms[0];
}

// Multivariate long division: what b's leading term does not divide goes to the remainder. Each step removes
// the leading term of what is left, so it ends; the remainder is 0 exactly when b divides a.
std::optional<Division> long_division(const Dim& a, const Dim& b) {
  const Term divisor = leading_term(Expression::of(b));
  Division result;
  Dim left = a;
  for (int step = 0; !left.is(0); ++step) {
    if (step == kDivisionStepsMax || !left.is_valid()) return std::nullopt;
    Term term = leading_term(Expression::of(left));
    const bool divides =
        Wide{term.coefficient} % divisor.coefficient == 0 &&
        std::ranges::includes(term.atoms, divisor.atoms, AtomBefore());  // both sorted, powers repeated
    if (!divides) {
      const Dim kept = Expression::sum(0, {term});
      result.remainder = result.remainder + kept;
      left = left - kept;
      continue;
    }
    const auto coefficient = narrow(Wide{term.coefficient} / divisor.coefficient);
    if (!coefficient) return std::nullopt;
    Monomial atoms;
    std::ranges::set_difference(term.atoms, divisor.atoms, std::back_inserter(atoms), AtomBefore());
    const Dim quotient = product_of(*coefficient, atoms);
    result.quotient = result.quotient + quotient;
    left = left - quotient * b;
  }
  if (!result.quotient.is_valid() || !result.remainder.is_valid()) return std::nullopt;
  return result;
}

std::optional<Division> valid(Division division) {
  if (!division.quotient.is_valid() || !division.remainder.is_valid()) return std::nullopt;
  return division;
}

// The whole quotient and remainder, when bounds and exact division prove them. b cannot be 0.
std::optional<Division> proven_division(const Dim& a, const Dim& b) {
  if (const auto value = only_value(floor_quotient(interval_of(a), interval_of(b)))) {
    return valid({*value, a - Dim(*value) * b});
  }
  const auto division = long_division(a, b);
  if (!division) return std::nullopt;
  const auto& [quotient, remainder] = *division;
  if (remainder.is(0)) return division;
  if (const auto value = only_value(floor_quotient(interval_of(remainder), interval_of(b)))) {
    return valid({quotient + *value, remainder - Dim(*value) * b});
  }
  const Dim room = b - remainder;
  const bool in_range = interval_of(remainder).min >= 0 && room.is_valid() && interval_of(room).min >= 1;
  return in_range ? division : std::nullopt;
}

// The constant divisor of a bare `x floordiv c` or `x mod c`.
std::optional<std::int64_t> constant_divisor(const Atom& atom, AtomKind kind) {
  return atom.kind == kind ? atom.operands[1].constant() : std::nullopt;
}

// (x floordiv d + k) floordiv c is (x + k·d) floordiv (d·c), for positive d and c: the chain of strided
// layers.
std::optional<Dim> joined_floor_div(const Dim& a, std::int64_t c) {
  const Expression& expression = Expression::of(a);
  const Dim floored = a - expression.constant;
  const Atom* atom = floored.is_valid() ? Expression::of(floored).bare_atom() : nullptr;
  const auto inner = atom != nullptr ? constant_divisor(*atom, AtomKind::floordiv) : std::nullopt;
  if (!inner || *inner < 0) return std::nullopt;
  const Dim dividend = atom->operands[0] + Dim(expression.constant) * *inner;
  const Dim divisor = Dim(*inner) * c;
  if (!dividend.is_valid() || !divisor.is_valid()) return std::nullopt;
  return floor_div(dividend, divisor);
}

// a floordiv c for c > 1. (c·q + r) floordiv c is q + r floordiv c: the constant of r comes to lie in [0, c),
// its coefficients in (-c, c) with their signs kept, so that the bounds of the parts add up to the bounds of
// the whole.
Dim floor_div_constant(const Dim& a, std::int64_t c) {
  if (const auto division = proven_division(a, c)) return division->quotient;
  const Expression& expression = Expression::of(a);
  std::vector<Term> quotient;
  std::vector<Term> remainder;
  for (const Term& term : expression.terms) {
    quotient.push_back({term.coefficient / c, term.atoms});
    remainder.push_back({term.coefficient % c, term.atoms});
  }
  const auto whole = static_cast<std::int64_t>(floor_quotient(Wide{expression.constant}, Wide{c}));
  const Dim q = Expression::sum(whole, std::move(quotient));
  if (!q.is(0))
    return q + floor_div(Expression::sum(expression.constant - whole * c, std::move(remainder)), c);
  const std::int64_t factor = common_factor(expression, magnitude(c));
  if (factor > 1) return floor_div(divided_by(a, factor, {}), c / factor);
  if (const auto joined = joined_floor_div(a, c)) return *joined;
  return Expression::make_atom(AtomKind::floordiv, {a, c});
}

// a with its constant in [0, c) and its coefficients in (-c/2, c/2]: equal modulo c.
Dim residue(const Dim& a, std::int64_t c) {
  const Expression& expression = Expression::of(a);
  std::vector<Term> terms;
  for (const Term& term : expression.terms) {
    Wide coefficient = floor_remainder(Wide{term.coefficient}, Wide{c});
    if (2 * coefficient > c) coefficient -= c;
    terms.push_back({static_cast<std::int64_t>(coefficient), term.atoms});
  }
  const Wide constant = floor_remainder(Wide{expression.constant}, Wide{c});
  return Expression::sum(static_cast<std::int64_t>(constant), std::move(terms));
}

// a mod c for c > 1.
Dim mod_constant(const Dim& a, std::int64_t c) {
  if (const auto division = proven_division(a, c)) return division->remainder;
  const Dim reduced = residue(a, c);
  if (reduced != a) return mod(reduced, c);
  const Expression& expression = Expression::of(a);
  const std::int64_t factor = common_factor(expression, magnitude(c));
  if (factor > 1) {  // (g·t + k) mod (g·c) is g·((t + k floordiv g) mod c) + k mod g
    return mod(divided_by(a, factor, {}), c / factor) * factor + expression.constant % factor;
  }
  for (const Term& term : expression.terms) {  // x mod m is x modulo c, for m a multiple of c
    const auto inner =
        term.atoms.size() == 1 ? constant_divisor(*term.atoms[0], AtomKind::mod) : std::nullopt;
    if (!inner || *inner % c != 0) continue;
    const Dim opened = a - Expression::sum(0, {term}) + Dim(term.coefficient) * term.atoms[0]->operands[0];
    if (opened.is_valid()) return mod(opened, c);
  }
  return Expression::make_atom(AtomKind::mod, {a, c});
}

// a <= b for all values, as far as bounds tell.
bool never_above(const Dim& a, const Dim& b) {
  if (interval_of(a).max <= interval_of(b).min) return true;
  const Dim difference = a - b;
  return difference.is_valid() && interval_of(difference).max <= 0;
}

// min and max are associative: nested ones become one list, of which no element is known to be redundant.
Dim extremum(AtomKind kind, const Dim& a, const Dim& b) {
  if (!a.is_valid() || !b.is_valid()) return Dim::invalid();
  std::vector<Dim> candidates;
  for (const Dim& side : {a, b}) {
    const Atom* atom = Expression::of(side).bare_atom();
    if (atom != nullptr && atom->kind == kind) {
      candidates.insert(candidates.end(), atom->operands.begin(), atom->operands.end());
    } else {
      candidates.push_back(side);
    }
  }
  std::vector<Dim> kept;
  for (const Dim& candidate : candidates) {
    const auto beats = [kind](const Dim& x, const Dim& y) {
      const auto wins = [kind](const Dim& p, const Dim& q) {
        return kind == AtomKind::min ? never_above(p, q) : never_above(q, p);
      };
      return wins(x, y) && (!wins(y, x) || x >= y);  // equal by bounds: constants come last in the order
    };
    if (std::ranges::any_of(kept, [&](const Dim& other) { return beats(other, candidate); })) continue;
    std::erase_if(kept, [&](const Dim& other) { return beats(candidate, other); });
    kept.push_back(candidate);
  }
  if (kept.size() == 1) return kept[0];
  std::ranges::sort(kept, [](const Dim& x, const Dim& y) { return x < y; });
  return Expression::make_atom(kind, std::move(kept));
}

// The terms with positive coefficients (and a positive constant) of d = a - b: the left side of a < b.
Dim positive_part(const Dim& difference) {
  const Expression& expression = Expression::of(difference);
  std::vector<Term> terms = expression.terms;
  std::erase_if(terms, [](const Term& term) { return term.coefficient < 0; });
  return Expression::make(std::max<std::int64_t>(expression.constant, 0), std::move(terms));
}

}  // namespace

Dim floor_div(const Dim& a, const Dim& b) {
  if (!a.is_valid() || !b.is_valid() || b.is(0)) return Dim::invalid();
  if (a.constant() && b.constant()) {
    const auto value = narrow(floor_quotient(Wide{*a.constant()}, Wide{*b.constant()}));
    return value ? Dim(*value) : Dim::invalid();
  }
  if (b.is(1)) return a;
  if (const auto lower = cancelled(a, b)) return floor_div(lower->a, lower->b);
  const std::int64_t c = b.constant().value_or(0);
  if (c > 0) return floor_div_constant(a, c);
  if (excludes_zero(interval_of(b))) {
    if (const auto division = proven_division(a, b)) return division->quotient;
  }
  return Expression::make_atom(AtomKind::floordiv, {a, b});
}

Dim mod(const Dim& a, const Dim& b) {
  if (!a.is_valid() || !b.is_valid() || b.is(0)) return Dim::invalid();
  if (a.constant() && b.constant()) {
    const auto value = narrow(floor_remainder(Wide{*a.constant()}, Wide{*b.constant()}));
    return value ? Dim(*value) : Dim::invalid();
  }
  if (b.is(1)) return 0;
  if (const auto lower = cancelled(a, b)) return mod(lower->a, lower->b) * lower->factor;
  const std::int64_t c = b.constant().value_or(0);
  if (c > 0) return mod_constant(a, c);
  if (excludes_zero(interval_of(b))) {
    if (const auto division = proven_division(a, b)) return division->remainder;
  }
  return Expression::make_atom(AtomKind::mod, {a, b});
}

Dim min(const Dim& a, const Dim& b) { return extremum(AtomKind::min, a, b); }
Dim max(const Dim& a, const Dim& b) { return extremum(AtomKind::max, a, b); }

Dim select_less(const Dim& a, const Dim& b, const Dim& then, const Dim& otherwise) {
  if (!a.is_valid() || !b.is_valid()) return Dim::invalid();
  if (interval_of(a).max < interval_of(b).min) return then;
  if (interval_of(a).min >= interval_of(b).max) return otherwise;
  Dim difference = a - b;
  if (difference.is_valid() && interval_of(difference).max < 0) return then;
  if (difference.is_valid() && interval_of(difference).min >= 0) return otherwise;
  if (!then.is_valid() || !otherwise.is_valid()) return Dim::invalid();
  if (then == otherwise) return then;
  if (!difference.is_valid()) return Expression::make_atom(AtomKind::select, {a, b, then, otherwise});

  // g·t + k < 0 is t + k floordiv g < 0; and the leading sign is made positive, as not d < 0 is -1 - d < 0.
  difference = divided_by(difference, common_factor(Expression::of(difference), 0), {});
  const Dim flipped = Dim(-1) - difference;
  if (Expression::of(difference).terms[0].coefficient < 0 && flipped.is_valid()) {
    return select_less(flipped, 0, otherwise, then);
  }
  // When the branches differ as the condition's sides do, the smaller (or larger) one is taken.
  const Dim gain = then - otherwise;
  if (gain == difference || gain == difference + 1) return min(then, otherwise);
  const Dim loss = otherwise - then;
  if (loss == difference || loss == difference + 1) return max(then, otherwise);

  Dim left = positive_part(difference);
  Dim right = left - difference;
  if (!right.is_valid()) return Expression::make_atom(AtomKind::select, {difference, 0, then, otherwise});
  return Expression::make_atom(AtomKind::select, {std::move(left), std::move(right), then, otherwise});
}

}  // namespace diji
