// Random expression trees: the canonical form has the tree's value, comes back from its text, lies in its
// bounds and agrees with substitution. A failure prints the seed; DIJI_TEST_SEED=<n> runs that one.
#include "base/dim.h"

#include "tests/unit/expect.h"

#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace diji {
namespace {

constexpr std::uint64_t kTrees = 20'000;
constexpr int kBindingsPerTree = 6;

enum class Op { constant, symbol, add, subtract, multiply, floordiv, mod, min, max, select };

struct Tree {
  Op op = Op::constant;
  std::int64_t value = 0;  // of a constant, or the number of a symbol
  std::vector<Tree> children;
};

struct Symbol {
  std::string name;
  Bounds bounds;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {
    const std::vector<Bounds> kinds = {{}, {1, 1 << 20}, {0, 3}, {-6, 6}, {2, 2}, {-9, -1}, {1, 64}};
    for (const char* name : {"a", "batch size", "min", "N"}) {
      symbols_.push_back({name, kinds[static_cast<std::size_t>(below(std::ssize(kinds)))]});
    }
  }

  std::int64_t below(std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random_);
  }

  Tree tree(int depth) {
    if (depth == 0 || below(5) == 0) return leaf();
    Tree result;
    // Divisions by a constant are what real shapes have: they come more often.
    result.op = static_cast<Op>(2 + below(8));
    const int children = result.op == Op::select ? 4 : 2;
    for (int i = 0; i < children; ++i) result.children.push_back(tree(depth - 1));
    const bool divides = result.op == Op::floordiv || result.op == Op::mod;
    if (divides && below(2) == 0)
      result.children[1] = {Op::constant, below(2) == 0 ? 2 + below(7) : below(17) - 8, {}};
    return result;
  }

  std::int64_t value_in(const Bounds& bounds) {
    switch (below(4)) {
      case 0: return bounds.min;
      case 1: return std::min(bounds.max, bounds.min + 1000);
      default: return bounds.min + below(std::min<std::int64_t>(bounds.max - bounds.min, 50) + 1);
    }
  }

  Bindings bindings() {
    Bindings result;
    for (const Symbol& symbol : symbols_) result[symbol.name] = value_in(symbol.bounds);
    return result;
  }

  const std::vector<Symbol>& symbols() const { return symbols_; }

 private:
  Tree leaf() {
    if (below(3) == 0) return {Op::constant, below(13) - 6, {}};
    return {Op::symbol, below(std::ssize(symbols_)), {}};
  }

  std::mt19937_64 random_;
  std::vector<Symbol> symbols_;
};

std::string text_of(const Tree& tree, const std::vector<Symbol>& symbols) {
  constexpr const char* kNames[] = {"",         "",    "add", "subtract", "multiply",
                                    "floordiv", "mod", "min", "max",      "select"};
  if (tree.op == Op::constant) return std::to_string(tree.value);
  if (tree.op == Op::symbol) {
    const Symbol& symbol = symbols[static_cast<std::size_t>(tree.value)];
    return fmt::format("'{}'[{}..{}]", symbol.name, symbol.bounds.min, symbol.bounds.max);
  }
  std::string text;
  for (const Tree& child : tree.children) text += (text.empty() ? "" : ", ") + text_of(child, symbols);
  return fmt::format("{}({})", kNames[static_cast<std::size_t>(tree.op)], text);
}

// `mirrored` swaps the operands of what is commutative.
Dim dim_of(const Tree& tree, const std::vector<Symbol>& symbols, bool mirrored) {
  if (tree.op == Op::constant) return tree.value;
  if (tree.op == Op::symbol) {
    const Symbol& symbol = symbols[static_cast<std::size_t>(tree.value)];
    return Dim::symbol(symbol.name, symbol.bounds);
  }
  std::vector<Dim> x;
  for (const Tree& child : tree.children) x.push_back(dim_of(child, symbols, mirrored));
  const bool ordered = tree.op == Op::subtract || tree.op == Op::floordiv || tree.op == Op::mod;
  if (mirrored && x.size() == 2 && !ordered) std::swap(x[0], x[1]);
  switch (tree.op) {
    case Op::add: return x[0] + x[1];
    case Op::subtract: return x[0] - x[1];
    case Op::multiply: return x[0] * x[1];
    case Op::floordiv: return floor_div(x[0], x[1]);
    case Op::mod: return mod(x[0], x[1]);
    case Op::min: return min(x[0], x[1]);
    case Op::max: return max(x[0], x[1]);
    default: return select_less(x[0], x[1], x[2], x[3]);
  }
}

// The independent definition: plain int64, nothing where it overflows or divides by zero.
std::optional<std::int64_t> value_of(const Tree& tree, const std::vector<Symbol>& symbols,
                                     const Bindings& bindings) {
  if (tree.op == Op::constant) return tree.value;
  if (tree.op == Op::symbol) return bindings.at(symbols[static_cast<std::size_t>(tree.value)].name);
  const auto a = value_of(tree.children[0], symbols, bindings);
  const auto b = value_of(tree.children[1], symbols, bindings);
  if (!a || !b) return std::nullopt;
  std::int64_t result = 0;
  switch (tree.op) {
    case Op::add: return __builtin_add_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
    case Op::subtract: return __builtin_sub_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
    case Op::multiply: return __builtin_mul_overflow(*a, *b, &result) ? std::nullopt : std::optional(result);
    case Op::floordiv:
    case Op::mod: {
      if (*b == 0 || *b == -1) return *b == 0 ? std::nullopt : std::optional(tree.op == Op::mod ? 0 : -*a);
      std::int64_t remainder = *a % *b;
      if (remainder != 0 && (remainder ^ *b) < 0) remainder += *b;
      return tree.op == Op::mod ? remainder : (*a - remainder) / *b;
    }
    case Op::min: return std::min(*a, *b);
    case Op::max: return std::max(*a, *b);
    default: {
      const auto then = value_of(tree.children[2], symbols, bindings);
      const auto otherwise = value_of(tree.children[3], symbols, bindings);
      return then && otherwise ? (*a < *b ? then : otherwise) : std::nullopt;
    }
  }
}

struct Counts {
  int valid = 0;
  int atoms_gone = 0;
  int values = 0;
};

void check_text(const Dim& dim) {
  const auto parsed = Dim::parse(dim.text(), dim.symbols());
  REQUIRE(parsed);
  EXPECT(*parsed == dim);
  EXPECT(parsed->hash() == dim.hash());
  EXPECT(parsed->text() == dim.text());
}

void check_substitution(const Dim& dim, const Bindings& bindings, std::int64_t value, Generator& random) {
  std::map<std::string, Dim, std::less<>> all;
  std::map<std::string, Dim, std::less<>> some;
  Bindings others = bindings;
  for (const auto& [name, number] : bindings) {
    all.emplace(name, number);
    if (random.below(2) == 0) continue;
    // Half of the symbols become t + (number - 1), worth the same at t = 1.
    some.emplace(name, Dim::symbol("t", {1, 1}) + (number - 1));
  }
  others["t"] = 1;
  const Dim constant = dim.substitute(all);
  CAPTURE(constant.text());
  EXPECT(constant.is(value));
  const Dim partly = dim.substitute(some);
  CAPTURE(partly.text());
  EXPECT(partly.evaluate(others) == value);
  EXPECT(dim.substitute({}) == dim);
}

void check_tree(std::uint64_t seed, Counts& counts) {
  INFO("DIJI_TEST_SEED=", seed);
  Generator random(seed);
  const Tree tree = random.tree(static_cast<int>(2 + random.below(3)));
  const Dim dim = dim_of(tree, random.symbols(), /*mirrored=*/false);
  CAPTURE(text_of(tree, random.symbols()));
  CAPTURE(dim.text());
  const Dim mirrored = dim_of(tree, random.symbols(), /*mirrored=*/true);
  CAPTURE(mirrored.text());
  EXPECT(mirrored == dim);
  if (dim.is_valid()) check_text(dim);
  counts.valid += dim.is_valid() ? 1 : 0;
  counts.atoms_gone += dim.is_valid() && dim.symbols().empty() ? 1 : 0;
  for (int i = 0; i < kBindingsPerTree; ++i) {
    const Bindings bindings = random.bindings();
    const auto wanted = value_of(tree, random.symbols(), bindings);
    if (!wanted) continue;
    REQUIRE(dim.is_valid());
    const auto found = dim.evaluate(bindings);
    for (const auto& [name, number] : bindings) DOCTEST_CAPTURE(number);
    REQUIRE(found);
    EXPECT(*found == *wanted);
    EXPECT(dim.bounds().min <= *found);
    EXPECT(dim.bounds().max >= *found);
    check_substitution(dim, bindings, *wanted, random);
    counts.values += 1;
  }
}

TEST_CASE("random trees keep their values, texts, bounds and substitutions") {
  Counts counts;
  if (const char* seed = std::getenv("DIJI_TEST_SEED")) {
    check_tree(std::strtoull(seed, nullptr, 10), counts);
    return;
  }
  for (std::uint64_t seed = 1; seed <= kTrees; ++seed) check_tree(seed, counts);
  // The generator must not hide behind invalid or constant expressions.
  EXPECT(counts.valid > static_cast<int>(kTrees) / 2);
  EXPECT(counts.atoms_gone < counts.valid / 2);
  EXPECT(counts.values > static_cast<int>(kTrees));
}

TEST_CASE("random polynomials obey the ring's laws") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    INFO("seed ", seed);
    Generator random(seed);
    const Dim a = dim_of(random.tree(2), random.symbols(), false);
    const Dim b = dim_of(random.tree(2), random.symbols(), false);
    const Dim c = dim_of(random.tree(2), random.symbols(), false);
    EXPECT((a + b) * c == a * c + b * c);
    EXPECT((a * b) * c == a * (b * c));
    EXPECT((a + b) - c == a + (b - c));
    EXPECT(a - a == (a.is_valid() ? Dim(0) : a));
  }
}

}  // namespace
}  // namespace diji
