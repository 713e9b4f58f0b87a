// The bound really bounds: the typed interpreter is an implementation that rounds as the bound assumes, so it
// must lie within the bound of the oracle on every graph.
#include "graph/error_bound.h"

#include "graph/text.h"

#include "tests/unit/expect.h"
#include "tests/unit/random_graph.h"

#include <functional>

namespace diji {
namespace {

constexpr std::uint64_t kGraphs = 3000;

struct Counts {
  std::int64_t elements = 0;
  std::int64_t bounded = 0;
};

void check_graph(std::uint64_t seed, Counts& counts) {
  INFO("DIJI_TEST_SEED=", seed);
  const test::RandomGraph random(
      seed, {.steps = static_cast<int>(2 + seed % 10), .special_values = seed % 3 == 0, .data_sizes = true});
  CAPTURE(print(random.graph()));
  const auto typed = interpret(random.graph(), random.inputs(), Arithmetic::typed);
  const auto truth = interpret_with_bounds(random.graph(), random.inputs());
  const auto oracle = interpret(random.graph(), random.inputs(), Arithmetic::oracle);
  REQUIRE_MESSAGE(typed, typed.error().message);
  REQUIRE_MESSAGE(truth, truth.error().message);
  REQUIRE(oracle);
  for (std::size_t i = 0; i < typed->size(); ++i) {
    CAPTURE(random.graph().outputs()[i].name);
    EXPECT(test::difference((*typed)[i], (*truth)[i]) == "");
    EXPECT((*oracle)[i].same_bits((*truth)[i].value));
    for (const double bound : (*truth)[i].bound.values<double>()) {
      EXPECT(bound >= 0);
      counts.elements += 1;
      counts.bounded += std::isfinite(bound) ? 1 : 0;
    }
  }
}

TEST_CASE("the typed interpreter lies within the bound of the oracle") {
  Counts counts;
  test::for_each_seed(kGraphs, [&](std::uint64_t seed) { check_graph(seed, counts); });
  // A bound of infinity is always right and says nothing.
  if (std::getenv("DIJI_TEST_SEED") == nullptr) EXPECT(counts.bounded > counts.elements * 8 / 10);
}

// One node on f32 inputs; the bound of its first element.
double bound_of(Primitive primitive, std::vector<float> operands) {
  Graph graph;
  Builder b(graph);
  Values values;
  std::vector<HostTensor> inputs;
  for (const float operand : operands) {
    values.push_back(graph.add_input(fmt::format("{}", values.size()), {DType::f32, {}}));
    inputs.push_back(HostTensor::of<float>({}, {operand}));
  }
  graph.add_output("y", b.primitive(primitive, values, {}));
  return (*interpret_with_bounds(graph, inputs))[0].bound.values<double>()[0];
}

TEST_CASE("one rounding costs half a unit in the last place") {
  EXPECT(bound_of(Primitive::add, {2, 1 + 0x1p-23F}) >= 3 * 0x1p-24);
  EXPECT(bound_of(Primitive::add, {2, 1 + 0x1p-23F}) < 3.001 * 0x1p-24);
  EXPECT(bound_of(Primitive::maximum, {1, 2}) == 0);
  EXPECT(bound_of(Primitive::exp, {0}) < 2.001 * 0x1p-24);
  EXPECT(bound_of(Primitive::sqrt, {4}) < 2.001 * 0x1p-24);
  EXPECT(bound_of(Primitive::equal, {1, 1}) == 0);
}

TEST_CASE("nothing is rounded where the exact result is a number of the dtype") {
  EXPECT(bound_of(Primitive::add, {1, 2}) == 0);
  EXPECT(bound_of(Primitive::subtract, {0.5F, 0x1p-20F}) == 0);
  EXPECT(bound_of(Primitive::multiply, {-3, 0}) == 0);
  EXPECT(bound_of(Primitive::divide, {-6, 3}) == 0);
  EXPECT(bound_of(Primitive::sqrt, {2.25F}) == 0);
  EXPECT(bound_of(Primitive::add, {1, 0x1p-60F}) > 0);
  EXPECT(bound_of(Primitive::multiply, {1 + 0x1p-20F, 1 + 0x1p-20F}) > 0);
  EXPECT(bound_of(Primitive::multiply, {0x1p-100F, 0x1p-100F}) > 0);
  EXPECT(bound_of(Primitive::divide, {1, 3}) > 0);
  EXPECT(bound_of(Primitive::divide, {1, 0}) > 0);
  EXPECT(bound_of(Primitive::sqrt, {2}) > 0);
}

TEST_CASE("infinity and NaN from exact operands are exact") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float step = std::numeric_limits<float>::denorm_min();
  EXPECT(bound_of(Primitive::divide, {1, 0}) <= step);
  EXPECT(bound_of(Primitive::divide, {0, 0}) <= step);
  EXPECT(bound_of(Primitive::add, {infinity, 1}) <= step);
  EXPECT(bound_of(Primitive::subtract, {infinity, infinity}) <= step);
  EXPECT(bound_of(Primitive::sqrt, {-1}) <= step);
}

// f(g(x)) with an error in g(x).
double bound_of_chain(float x, const std::function<ValueId(Builder&, ValueId)>& chain) {
  Graph graph;
  Builder b(graph);
  const ValueId id = graph.add_input("x", {DType::f32, {}});
  graph.add_output("y", chain(b, id));
  const std::vector<HostTensor> inputs = {HostTensor::of<float>({}, {x})};
  return (*interpret_with_bounds(graph, inputs))[0].bound.values<double>()[0];
}

TEST_CASE("nothing is promised behind an overflow or a root that may be negative") {
  EXPECT(std::isfinite(bound_of_chain(100, [](Builder& b, ValueId x) { return b.exp(x); })));
  EXPECT(std::isinf(bound_of_chain(
      100, [](Builder& b, ValueId x) { return b.multiply(b.exp(x), b.scalar(DType::f32, 0)); })));
  EXPECT(std::isinf(
      bound_of_chain(1, [](Builder& b, ValueId x) { return b.sqrt(b.subtract(b.exp(x), b.exp(x))); })));
  EXPECT(std::isinf(
      bound_of_chain(1, [](Builder& b, ValueId x) { return b.divide(x, b.subtract(b.exp(x), b.exp(x))); })));
}

TEST_CASE("an integer that comes from a rounded float may be off by the float's error and one") {
  const auto floor_of_exp = [](Builder& b, ValueId x) { return b.convert(b.exp(x), DType::i32); };
  EXPECT(bound_of_chain(2, floor_of_exp) > 1);
  EXPECT(bound_of_chain(2, floor_of_exp) < 1.001);
  EXPECT(bound_of_chain(2, [](Builder& b, ValueId x) { return b.convert(x, DType::i32); }) == 0);
  // 3 ± 1 over 2 is 1 or 2.
  EXPECT(bound_of_chain(1.2F, [&](Builder& b, ValueId x) {
           return b.divide(floor_of_exp(b, x), b.scalar(DType::i32, 2));
         }) >= 1);
}

TEST_CASE("an integer at the end of its range does not wrap when a float saturates into it") {
  const auto code = [](Builder& b, ValueId x) {
    return b.multiply(b.convert(b.convert(b.exp(x), DType::u8), DType::i32), b.scalar(DType::i32, 3));
  };
  EXPECT(bound_of_chain(9, code) >= 3);  // e^9 is far above 255
  EXPECT(bound_of_chain(9, code) < 10);
}

// Bounds of a formula over keys that are 1, 2, 3 and 3 exactly, or with an error of about 1e-7 each.
std::vector<double> bounds_of(bool exact, const std::function<ValueId(Builder&, ValueId)>& formula) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::f32, {4}});
  graph.add_output(
      "y", formula(b, exact ? x : b.multiply(b.divide(x, b.scalar(DType::f32, 7)), b.scalar(DType::f32, 7))));
  const auto bounded = interpret_with_bounds(graph, std::vector{HostTensor::of<float>({4}, {1, 2, 3, 3})});
  REQUIRE_MESSAGE(bounded, bounded.error().message);
  const auto values = (*bounded)[0].bound.values<double>();
  return {values.begin(), values.end()};
}

TEST_CASE("keys that may change places leave the coordinates open between them, and no others") {
  const auto sorted = [](Builder& b, ValueId x) { return b.sort_indices(x, 0, false); };
  EXPECT(bounds_of(true, sorted) == std::vector<double>{0, 0, 0, 0});
  EXPECT(bounds_of(false, sorted) == std::vector<double>{0, 0, 1, 1});
  const auto largest = [](Builder& b, ValueId x) { return b.arg_reduce(x, Reduction::max, 0); };
  EXPECT(bounds_of(true, largest) == std::vector<double>{0});
  EXPECT(bounds_of(false, largest) == std::vector<double>{1});
  EXPECT(bounds_of(false, [](Builder& b, ValueId x) { return b.arg_reduce(x, Reduction::min, 0); }) ==
         std::vector<double>{0});
}

TEST_CASE("a gather moves bounds; an index that may differ leaves everything open") {
  const auto number = [](Builder& b, double value) { return b.reshape(b.scalar(DType::i64, value), {1}); };
  EXPECT(bounds_of(false, [&](Builder& b, ValueId x) { return b.gather(x, {number(b, 1)}); })[0] < 1e-6);
  EXPECT(bounds_of(false, [&](Builder& b, ValueId x) { return b.gather(x, {number(b, 9)}, true); })[0] == 0);
  EXPECT(std::isinf(bounds_of(
      false, [](Builder& b, ValueId x) { return b.gather(x, {b.convert(x, DType::i64)}, true); })[0]));
}

TEST_CASE("products err relative to themselves") {
  const auto product = [](Builder& b, ValueId x) { return b.reduce(x, Reduction::product, {0}); };
  EXPECT(bounds_of(true, product)[0] < 18 * 1.01 * 0x1p-24);
  EXPECT(bounds_of(true, product)[0] >= 18 * 0x1p-24);
  EXPECT(bounds_of(false, product)[0] > 18 * 4 * 0x1p-24);
  EXPECT(bounds_of(false, product)[0] < 18 * 16 * 0x1p-24);
}

}  // namespace
}  // namespace diji
