// Canonical polynomials: making, comparing, adding, multiplying, evaluating and substituting Dims.
#include "base/dim.h"

#include "base/checked.h"
#include "base/dim_expression.h"
#include "base/dim_interval.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace diji {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio: spreads neighbouring values
  return hash ^ (hash >> 29);
}
std::uint64_t mixed(std::uint64_t hash, std::int64_t value) {
  return mixed(hash, static_cast<std::uint64_t>(value));
}

Interval interval_of(const Atom& atom) {
  if (atom.kind == AtomKind::symbol) return {atom.bounds.min, atom.bounds.max};
  const auto operand = [&](std::size_t i) { return Dim::Expression::of(atom.operands[i]).interval; };
  switch (atom.kind) {
    case AtomKind::floordiv: return floor_quotient(operand(0), operand(1));
    case AtomKind::mod: return floor_remainder(operand(0), operand(1));
    case AtomKind::select: return hull(operand(2), operand(3));
    default: break;
  }
  Interval result = operand(0);
  for (std::size_t i = 1; i < atom.operands.size(); ++i) {
    const Interval next = operand(i);
    if (atom.kind == AtomKind::min) result = {std::min(result.min, next.min), std::min(result.max, next.max)};
    if (atom.kind == AtomKind::max) result = {std::max(result.min, next.min), std::max(result.max, next.max)};
  }
  return result;
}

AtomPointer with_derived(Atom atom) {
  atom.hash = mixed(0, static_cast<std::uint64_t>(atom.kind));
  for (const char c : atom.name)
    atom.hash = mixed(atom.hash, static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
  if (atom.kind == AtomKind::symbol) {
    atom.hash = mixed(mixed(atom.hash, atom.bounds.min), atom.bounds.max);
  }
  for (const Dim& operand : atom.operands) {
    const Dim::Expression& expression = Dim::Expression::of(operand);
    atom.hash = mixed(atom.hash, expression.hash);
    atom.size += expression.size;
    atom.depth = std::max(atom.depth, expression.depth + 1);
  }
  atom.interval = interval_of(atom);
  return std::make_shared<const Atom>(std::move(atom));
}

Interval interval_of(const Term& term) {
  Interval result = single(term.coefficient);
  for (const AtomPointer& atom : term.atoms) result = product(result, atom->interval);
  return result;
}

std::optional<std::int64_t> combined(std::int64_t a, std::int64_t b, bool subtract) {
  return subtract ? checked_sub(a, b) : checked_add(a, b);
}

// a + b or a - b. Subtraction is not addition of -1·b: -INT64_MIN does not exist although a - INT64_MIN may.
Dim add_or_subtract(const Dim& a, const Dim& b, bool subtract) {
  if (!a.is_valid() || !b.is_valid()) return Dim::invalid();
  const Dim::Expression& left = Dim::Expression::of(a);
  const Dim::Expression& right = Dim::Expression::of(b);
  const auto constant = combined(left.constant, right.constant, subtract);
  if (!constant) return Dim::invalid();
  std::vector<Term> terms;
  terms.reserve(left.terms.size() + right.terms.size());
  auto i = left.terms.begin();
  auto j = right.terms.begin();
  while (i != left.terms.end() || j != right.terms.end()) {
    auto order = std::strong_ordering::equal;
    if (i == left.terms.end()) {
      order = std::strong_ordering::greater;
    } else if (j == right.terms.end()) {
      order = std::strong_ordering::less;
    } else {
      order = compare_monomials(i->atoms, j->atoms);
    }
    if (order < 0) {
      terms.push_back(*i++);
      continue;
    }
    const auto coefficient = combined(order == 0 ? i->coefficient : 0, j->coefficient, subtract);
    if (!coefficient) return Dim::invalid();
    if (*coefficient != 0) terms.push_back({*coefficient, j->atoms});
    if (order == 0) ++i;
    ++j;
  }
  return Dim::Expression::make(*constant, std::move(terms));
}

// One run's evaluation. Only the taken branch of a select is evaluated.
class Evaluation {
 public:
  explicit Evaluation(const Bindings& bindings) : bindings_(bindings) {}

  Result<Wide> value_of(const Dim& dim) const {
    const Dim::Expression& expression = Dim::Expression::of(dim);
    Wide total = expression.constant;
    for (const Term& term : expression.terms) {
      Wide value = term.coefficient;
      for (const AtomPointer& atom : term.atoms) value = clamped_product(value, TRY(value_of(*atom)));
      total = clamped_sum(total, value);
      // Checked a term, so that an overflow cannot come back into range.
      if (value >= kUnbounded || value <= -kUnbounded || total >= kUnbounded || total <= -kUnbounded) {
        return overflow();
      }
    }
    return total;
  }

  static std::unexpected<Error> overflow() {
    return fail(ErrorCode::data, "the value does not fit 64 bits with these sizes");
  }

 private:
  Result<Wide> value_of(const Atom& atom) const {
    if (atom.kind == AtomKind::symbol) return value_of_symbol(atom);
    const Wide a = TRY(value_of(atom.operands[0]));
    const Wide b = TRY(value_of(atom.operands[1]));
    switch (atom.kind) {
      case AtomKind::floordiv:
      case AtomKind::mod:
        if (b == 0) return fail(ErrorCode::data, "division by zero: {} is 0", atom.operands[1].text());
        return atom.kind == AtomKind::floordiv ? floor_quotient(a, b) : floor_remainder(a, b);
      case AtomKind::select: return value_of(atom.operands[a < b ? 2 : 3]);
      default: break;
    }
    Wide result = atom.kind == AtomKind::min ? std::min(a, b) : std::max(a, b);
    for (std::size_t i = 2; i < atom.operands.size(); ++i) {
      const Wide next = TRY(value_of(atom.operands[i]));
      result = atom.kind == AtomKind::min ? std::min(result, next) : std::max(result, next);
    }
    return result;
  }

  // Simplifications used the bounds, so a value outside of them would give sizes that contradict each other.
  Result<Wide> value_of_symbol(const Atom& atom) const {
    const auto found = bindings_.find(atom.name);
    if (found == bindings_.end()) return fail(ErrorCode::mismatch, "symbol '{}' has no value", atom.name);
    const std::int64_t value = found->second;
    if (value < atom.bounds.min || value > atom.bounds.max) {
      return fail(ErrorCode::mismatch, "symbol '{}' is {}, outside of its bounds {} to {}", atom.name, value,
                  atom.bounds.min, atom.bounds.max);
    }
    return value;
  }

  const Bindings& bindings_;
};

using Substitutes = std::map<std::string, Dim, std::less<>>;

Dim substituted(const AtomPointer& atom, const Substitutes& values) {
  if (atom->kind == AtomKind::symbol) {
    const auto found = values.find(atom->name);
    return found != values.end() ? found->second : Dim::Expression::make(0, {{1, {atom}}});
  }
  std::vector<Dim> operands;
  for (const Dim& operand : atom->operands) operands.push_back(operand.substitute(values));
  switch (atom->kind) {
    case AtomKind::floordiv: return floor_div(operands[0], operands[1]);
    case AtomKind::mod: return mod(operands[0], operands[1]);
    case AtomKind::select: return select_less(operands[0], operands[1], operands[2], operands[3]);
    default: break;
  }
  Dim result = operands[0];
  for (const Dim& operand : operands) {
    result = atom->kind == AtomKind::min ? min(result, operand) : max(result, operand);
  }
  return result;
}

void collect_symbols(const Dim& dim, std::map<std::string, Bounds, std::less<>>& symbols) {
  for (const Term& term : Dim::Expression::of(dim).terms) {
    for (const AtomPointer& atom : term.atoms) {
      for (const Dim& operand : atom->operands) collect_symbols(operand, symbols);
      if (atom->kind != AtomKind::symbol) continue;
      // One name with two bounds is two symbols, but their value is one and has to respect both.
      Bounds& bounds = symbols.try_emplace(atom->name, atom->bounds).first->second;
      bounds = {std::max(bounds.min, atom->bounds.min), std::min(bounds.max, atom->bounds.max)};
    }
  }
}

}  // namespace

std::strong_ordering compare(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (const auto order = a.kind <=> b.kind; order != 0) return order;
  if (const auto order = a.name <=> b.name; order != 0) return order;
  if (const auto order = a.bounds.min <=> b.bounds.min; order != 0) return order;
  if (const auto order = a.bounds.max <=> b.bounds.max; order != 0) return order;
  return std::lexicographical_compare_three_way(a.operands.begin(), a.operands.end(), b.operands.begin(),
                                                b.operands.end());
}

std::strong_ordering compare_monomials(const Monomial& a, const Monomial& b) {
  if (const auto order = b.size() <=> a.size(); order != 0) return order;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (const auto order = compare(*a[i], *b[i]); order != 0) return order;
  }
  return std::strong_ordering::equal;
}

Dim Dim::Expression::make(std::int64_t constant, std::vector<Term> terms) {
  Expression expression;
  expression.constant = constant;
  expression.hash = mixed(1, constant);
  expression.interval = single(constant);
  for (const Term& term : terms) {
    expression.hash = mixed(expression.hash, term.coefficient);
    expression.interval = diji::sum(expression.interval, interval_of(term));
    expression.size += 1;
    for (const AtomPointer& atom : term.atoms) {
      expression.hash = mixed(expression.hash, atom->hash);
      expression.size += atom->size;
      expression.depth = std::max(expression.depth, atom->depth);
    }
    if (expression.size > kDimSizeMax || expression.depth > kDimDepthMax) return invalid();
  }
  expression.terms = std::move(terms);
  return Dim(std::make_shared<const Expression>(std::move(expression)));
}

Dim Dim::Expression::sum(std::int64_t constant, std::vector<Term> terms) {
  std::ranges::sort(terms,
                    [](const Term& a, const Term& b) { return compare_monomials(a.atoms, b.atoms) < 0; });
  std::vector<Term> canonical;
  for (Term& term : terms) {
    const bool same = !canonical.empty() && compare_monomials(canonical.back().atoms, term.atoms) == 0;
    std::int64_t& target = term.atoms.empty() ? constant
                           : same             ? canonical.back().coefficient
                                              : canonical.emplace_back(0, std::move(term.atoms)).coefficient;
    const auto total = checked_add(target, term.coefficient);
    if (!total) return invalid();
    target = *total;
  }
  std::erase_if(canonical, [](const Term& term) { return term.coefficient == 0; });
  return make(constant, std::move(canonical));
}

Dim Dim::Expression::make_atom(AtomKind kind, std::vector<Dim> operands) {
  Atom atom;
  atom.kind = kind;
  atom.operands = std::move(operands);
  return make(0, {{1, {with_derived(std::move(atom))}}});
}

Dim::Dim(std::shared_ptr<const Expression> expression) : expression_(std::move(expression)) {}

Dim::Dim(std::int64_t value) : Dim(Expression::make(value, {})) {}

Dim Dim::symbol(std::string_view name, Bounds bounds) {
  if (bounds.min > bounds.max) return invalid();
  Atom atom;
  atom.name = std::string(name);
  atom.bounds = bounds;
  return Expression::make(0, {{1, {with_derived(std::move(atom))}}});
}

Dim Dim::invalid() { return Dim(std::shared_ptr<const Expression>()); }

bool Dim::is_valid() const { return expression_ != nullptr; }

std::optional<std::int64_t> Dim::constant() const {
  if (!is_valid() || !expression_->terms.empty()) return std::nullopt;
  return expression_->constant;
}

std::optional<std::string_view> Dim::symbol_name() const {
  const Atom* atom = is_valid() ? expression_->bare_atom() : nullptr;
  if (atom == nullptr || atom->kind != AtomKind::symbol) return std::nullopt;
  return atom->name;
}

Bounds Dim::bounds() const {
  constexpr Bounds kAll = {std::numeric_limits<std::int64_t>::min(),
                           std::numeric_limits<std::int64_t>::max()};
  if (!is_valid()) return kAll;
  const auto clamped = [&](Wide value) {
    return static_cast<std::int64_t>(std::clamp<Wide>(value, kAll.min, kAll.max));
  };
  return {clamped(expression_->interval.min), clamped(expression_->interval.max)};
}

std::map<std::string, Bounds, std::less<>> Dim::symbols() const {
  std::map<std::string, Bounds, std::less<>> result;
  if (is_valid()) collect_symbols(*this, result);
  return result;
}

Result<std::int64_t> Dim::evaluate(const Bindings& bindings) const {
  if (!is_valid()) return fail(ErrorCode::data, "a size whose arithmetic overflowed has no value");
  if (const auto value = constant()) return *value;
  const auto value = Evaluation(bindings).value_of(*this);
  if (!value) return in_context(text(), value.error());
  const auto narrowed = narrow(*value);
  if (!narrowed) return in_context(text(), Evaluation::overflow().error());
  return *narrowed;
}

Dim Dim::substitute(const Substitutes& values) const {
  if (!is_valid() || expression_->terms.empty()) return *this;
  Dim total = expression_->constant;
  for (const Term& term : expression_->terms) {
    Dim value = term.coefficient;
    for (const AtomPointer& atom : term.atoms) value = value * substituted(atom, values);
    total = total + value;
  }
  return total;
}

Dim operator+(const Dim& a, const Dim& b) { return add_or_subtract(a, b, /*subtract=*/false); }
Dim operator-(const Dim& a, const Dim& b) { return add_or_subtract(a, b, /*subtract=*/true); }

Dim operator*(const Dim& a, const Dim& b) {
  if (!a.is_valid() || !b.is_valid()) return Dim::invalid();
  std::vector<Term> left = a.expression_->terms;
  std::vector<Term> right = b.expression_->terms;
  left.push_back({a.expression_->constant, {}});
  right.push_back({b.expression_->constant, {}});
  if (std::ssize(left) * std::ssize(right) > kDimSizeMax) return Dim::invalid();
  std::vector<Term> terms;
  for (const Term& x : left) {
    for (const Term& y : right) {
      const auto coefficient = checked_mul(x.coefficient, y.coefficient);
      if (!coefficient) return Dim::invalid();
      if (*coefficient == 0) continue;
      Term& term = terms.emplace_back(*coefficient, Monomial());
      std::ranges::merge(x.atoms, y.atoms, std::back_inserter(term.atoms), AtomBefore());
    }
  }
  return Dim::Expression::sum(0, std::move(terms));
}

bool operator==(const Dim& a, const Dim& b) { return a.hash() == b.hash() && (a <=> b) == 0; }

std::strong_ordering operator<=>(const Dim& a, const Dim& b) {
  if (a.expression_ == b.expression_) return std::strong_ordering::equal;
  if (const auto order = a.is_valid() <=> b.is_valid(); order != 0 || !a.is_valid()) return order;
  // Constants behind everything else: min(N, 9).
  if (const auto order = a.constant().has_value() <=> b.constant().has_value(); order != 0) return order;
  const auto by_term = [](const Term& x, const Term& y) {
    const auto order = compare_monomials(x.atoms, y.atoms);
    return order != 0 ? order : x.coefficient <=> y.coefficient;
  };
  const std::vector<Term>& x = a.expression_->terms;
  const std::vector<Term>& y = b.expression_->terms;
  const auto order = std::lexicographical_compare_three_way(x.begin(), x.end(), y.begin(), y.end(), by_term);
  return order != 0 ? order : a.expression_->constant <=> b.expression_->constant;
}

std::uint64_t Dim::hash() const { return is_valid() ? expression_->hash : 0; }

Dim element_count(const Shape& shape) {
  Dim count = 1;
  bool empty = false;
  for (const Dim& size : shape) {
    if (!size.is_valid()) return Dim::invalid();
    empty |= size.is(0);
  }
  if (empty) return 0;  // as checked_product: whatever the other sizes are
  for (const Dim& size : shape) count = count * size;
  return count;
}

Result<std::vector<std::int64_t>> evaluate(const Shape& shape, const Bindings& bindings) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(shape.size());
  for (const Dim& size : shape) sizes.push_back(TRY(size.evaluate(bindings)));
  return sizes;
}

}  // namespace diji
