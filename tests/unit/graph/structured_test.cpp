// Branches, loops and observed sizes in the interpreter, and their text form.
#include "graph/builder.h"
#include "graph/interpreter.h"
#include "graph/text.h"
#include "graph/verify.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

Graph parsed(std::string_view text) {
  auto graph = parse(text, {});
  REQUIRE_MESSAGE(graph, graph.error().message);
  const auto verified = verify(*graph);
  REQUIRE_MESSAGE(verified, verified.error().message);
  // What is printed reads back to the same.
  const std::string printed = print(*graph);
  const auto again = parse(printed, {});
  REQUIRE_MESSAGE(again, again.error().message);
  EXPECT(print(*again) == printed);
  return std::move(*graph);
}

HostTensor floats(std::initializer_list<float> values) {
  return HostTensor::of<float>({std::ssize(values)}, values);
}
HostTensor number(std::int64_t value) { return HostTensor::of<std::int64_t>({}, {value}); }
HostTensor truth(bool value) { return HostTensor::of<bool>({}, {value}); }

std::vector<HostTensor> typed(const Graph& graph, const std::vector<HostTensor>& inputs) {
  auto outputs = interpret(graph, inputs, Arithmetic::typed);
  REQUIRE_MESSAGE(outputs, outputs.error().message);
  return std::move(*outputs);
}

// Two branches of different sizes: the size of the result is a symbol that the run tells.
constexpr std::string_view kBranches = R"(graph "branches" {
  symbol N in [0, 1000]
  input %c "c" : bool[]
  input %x "x" : f32[N]
  %y = prim.conditional(%c, %x) graph "then" {
    input %0 "x" : f32[N]
    %1 = prim.concatenate(%0, %0) {axis = 0}
    output "y" = %1
  } graph "else" {
    input %0 "x" : f32[N]
    output "y" = %0
  }
  %z = prim.add(%y, %y)
  output "z" = %z
})";

TEST_CASE("the branch that is taken tells the size") {
  const Graph graph = parsed(kBranches);
  EXPECT(typed(graph, {truth(true), floats({1, 2})})[0].same_bits(floats({2, 4, 2, 4})));
  EXPECT(typed(graph, {truth(false), floats({1, 2})})[0].same_bits(floats({2, 4})));
  EXPECT(typed(graph, {truth(true), floats({})})[0].same_bits(floats({})));
}

constexpr std::string_view kGrowing = R"(graph "growing" {
  symbol N in [0, 1000]
  symbol K in [0, 1000]
  input %m "m" : i64[]
  input %x "x" : f32[N]
  %y, %s = prim.loop(%m, _, %x, %x) {carried = 1, conditional = 0, scanned = 0} graph "body" {
    symbol K in [0, 1000]
    input %i "i" : i64[]
    input %a "a" : f32[K]
    input %x "x" : f32[N]
    %b = prim.concatenate(%a, %x) {axis = 0}
    %t = prim.add(%i, %i)
    output "a" = %b
    output "twice" = %t
  }
  output "y" = %y
  output "s" = %s
})";

TEST_CASE("a carried value may grow, and zero trips give it back") {
  const Graph graph = parsed(kGrowing);
  const auto twice = typed(graph, {number(2), floats({1, 2})});
  EXPECT(twice[0].same_bits(floats({1, 2, 1, 2, 1, 2})));
  EXPECT(twice[1].same_bits(HostTensor::of<std::int64_t>({2}, {0, 2})));
  for (const std::int64_t trips : {0, -3}) {
    const auto none = typed(graph, {number(trips), floats({1, 2})});
    EXPECT(none[0].same_bits(floats({1, 2})));
    EXPECT((none[1].shape() == StaticShape{0}));
  }
}

constexpr std::string_view kUntil = R"(graph "until" {
  symbol T in [0, 1000]
  input %x "x" : f32[T, 2]
  input %limit "limit" : f32[2]
  %zero = constant f32[2] {0.0, 0.0}
  %y, %s = prim.loop(_, _, %zero, %x, %limit) {carried = 1, conditional = 1, scanned = 1} graph "body" {
    input %i "i" : i64[]
    input %sum "sum" : f32[2]
    input %row "row" : f32[2]
    input %limit "limit" : f32[2]
    %next = prim.add(%sum, %row)
    %same = prim.equal(%next, %limit)
    %no = constant bool[2] {0, 0}
    %other = prim.equal(%same, %no)
    %start = prim.slice(%other) {size = dims[1], start = dims[0], step = ints[1]}
    output "condition" = %start
    output "sum" = %next
    output "row" = %next
  }
  output "y" = %y
  output "s" = %s
})";

TEST_CASE("a loop ends when its condition says so, with what it has stacked so far") {
  const Graph graph = parsed(kUntil);
  const HostTensor x = HostTensor::of<float>({4, 2}, {1, 10, 2, 20, 3, 30, 4, 40});
  const auto some = typed(graph, {x, floats({3, 0})});
  EXPECT(some[0].same_bits(floats({3, 30})));
  EXPECT(some[1].same_bits(HostTensor::of<float>({2, 2}, {1, 10, 3, 30})));
  EXPECT((typed(graph, {x, floats({1000, 0})})[1].shape() == StaticShape{4, 2}));
  EXPECT((typed(graph, {HostTensor::of<float>({0, 2}, std::initializer_list<float>{}), floats({3, 0})})[1]
              .shape() == StaticShape{0, 2}));
  // The sums are exact in f32, but the interpreter does not know it: only sums of one term are certain.
  EXPECT(interpret_with_bounds(graph, std::vector{x, floats({0.5F, 0})}).has_value());
}

constexpr std::string_view kObserved = R"(graph "observed" {
  symbol N in [0, 1000]
  symbol "#0" in [-1000, 1000]
  input %x "x" : f32[N]
  input %shape "shape" : i64[2]
  %two = constant i64[2] {2, 0}
  %sum = prim.add(%shape, %two)
  %known = prim.observe(%sum) {symbols = dims["#0", "#1"]}
  %y = prim.reshape(%x) {shape = dims["#0", "#1"]}
  output "y" = %y
  output "known" = %known
})";

TEST_CASE("an observed size becomes a shape, and what was assumed of it is checked then") {
  std::string text(kObserved);
  text.insert(text.find("  input"), "  symbol \"#1\" in [-1000, 1000]\n");
  const Graph graph = parsed(text);
  const auto sizes = [](std::int64_t a, std::int64_t b) { return HostTensor::of<std::int64_t>({2}, {a, b}); };
  const HostTensor x = floats({1, 2, 3, 4, 5, 6});
  EXPECT((typed(graph, {x, sizes(0, 3)})[0].shape() == StaticShape{2, 3}));
  EXPECT((typed(graph, {x, sizes(1, 2)})[0].shape() == StaticShape{3, 2}));
  const auto other = interpret(graph, std::vector{x, sizes(2, 2)}, Arithmetic::typed);
  REQUIRE_FALSE(other);
  EXPECT(other.error().code == ErrorCode::mismatch);
  const auto negative = interpret(graph, std::vector{x, sizes(-4, -3)}, Arithmetic::typed);
  REQUIRE_FALSE(negative);
  const auto far = interpret(graph, std::vector{x, sizes(5000, 2)}, Arithmetic::typed);
  REQUIRE_FALSE(far);
  EXPECT(far.error().code == ErrorCode::data);
  EXPECT(far.error().message.contains("5002"));
  EXPECT(far.error().message.contains("1000"));
}

TEST_CASE("where rounding decides there is no truth") {
  const Graph graph = parsed(R"(graph "rounding" {
    input %a "a" : f32[]
    %b = prim.exp(%a)
    %one = constant f32[] {2.7182818}
    %c = prim.equal(%b, %one)
    %y = prim.conditional(%c, %a) graph "then" {
      input %0 "x" : f32[]
      output "y" = %0
    } graph "else" {
      input %0 "x" : f32[]
      %1 = prim.add(%0, %0)
      output "y" = %1
    }
    output "y" = %y
  })");
  const auto close = interpret_with_bounds(graph, std::vector{HostTensor::of<float>({}, {1})});
  REQUIRE_FALSE(close);
  EXPECT(close.error().code == ErrorCode::unsupported);
  EXPECT(close.error().message.contains("rounding"));
  EXPECT(interpret_with_bounds(graph, std::vector{HostTensor::of<float>({}, {2})}).has_value());
}

TEST_CASE("fresh symbols never meet names that the text has") {
  const Graph graph = parsed(R"(graph "names" {
    symbol "#0" in [0, 1000]
    symbol "#7.1" in [0, 1000]
    input %c "c" : bool[]
    input %x "x" : f32["#0"]
    input %y "y" : f32["#7.1"]
    %r = prim.conditional(%c, %x, %y) graph "then" {
      input %0 "x" : f32["#0"]
      input %1 "y" : f32["#7.1"]
      output "y" = %0
    } graph "else" {
      input %0 "x" : f32["#0"]
      input %1 "y" : f32["#7.1"]
      output "y" = %1
    }
    output "r" = %r
  })");
  EXPECT(typed(graph, {truth(true), floats({1}), floats({1, 2})})[0].same_bits(floats({1})));
  EXPECT(typed(graph, {truth(false), floats({1}), floats({1, 2})})[0].same_bits(floats({1, 2})));
}

}  // namespace
}  // namespace diji
