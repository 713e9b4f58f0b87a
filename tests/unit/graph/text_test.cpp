// The text form: everything a graph holds comes back, and nothing malformed does more than return an error.
#include "graph/text.h"

#include "graph/builder.h"
#include "graph/verify.h"

#include "tests/unit/expect.h"
#include "tests/unit/random_graph.h"

#include <bit>
#include <cmath>
#include <random>

namespace diji {
namespace {

// An operator with an attribute of every kind.
constexpr OpDef kEvery = {
    .name = "every",
    .doc = "a test",
    .inputs = {{"x", "[...]"},
               {"y", "[...]", kAny, "any", OperandMode::optional},
               {"z", "[...]", kAny, "any", OperandMode::optional}},
    .outputs = {{"a", "[...]"}, {"b", "[...]"}},
    .attributes = {{"integer", AttributeKind::integer, "0", ""},
                   {"real", AttributeKind::real, "0", ""},
                   {"text", AttributeKind::text, "0", ""},
                   {"integers", AttributeKind::integers, "0", ""},
                   {"reals", AttributeKind::reals, "0", ""},
                   {"dims", AttributeKind::dims, "0", ""},
                   {"dtype", AttributeKind::dtype, "0", ""},
                   {"tensor", AttributeKind::tensor, "0", ""}},
    .decompose = [](Builder&, const OpCall& call) { return Values{call.inputs[0], call.inputs[0]}; }};

const OpDef* find_every(std::string_view name) { return name == "every" ? &kEvery : nullptr; }

void check_round_trip(const Graph& graph) {
  const std::string text = print(graph);
  CAPTURE(text);
  const auto again = parse(text, find_every);
  REQUIRE_MESSAGE(again, again.error().message);
  EXPECT(print(*again) == text);
  REQUIRE(again->nodes().size() == graph.nodes().size());
  REQUIRE(again->values().size() == graph.values().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    EXPECT((again->nodes()[i].attributes == graph.nodes()[i].attributes));
    EXPECT((again->nodes()[i].inputs == graph.nodes()[i].inputs));
    EXPECT(again->nodes()[i].name == graph.nodes()[i].name);
  }
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value &a = graph.values()[i], &b = again->values()[i];
    EXPECT((a.type == b.type));
    REQUIRE((a.constant == nullptr) == (b.constant == nullptr));
    if (a.constant != nullptr) EXPECT(a.constant->same_bits(*b.constant));
  }
  EXPECT((again->constraints() == graph.constraints()));
}

const std::string kHard = "quotes \" and \\ and\nlines\ttabs \x01 \x7f # = { } [ , ] ü";

TEST_CASE("attributes of every kind come back") {
  Graph graph;
  graph.name = kHard;
  const Dim odd = Dim::symbol("batch \"size\"\n", {1, 8});
  const ValueId x = graph.add_input(kHard, {DType::f32, {odd, 2}});
  const double payload = std::bit_cast<double>(0xfff4'0000'dead'beefULL);
  const Attributes sets[] = {
      {},
      {{"integer", std::numeric_limits<std::int64_t>::min()}, {"real", 0.1}, {"text", kHard}},
      {{"integers", Ints{}}, {"reals", Floats{}}, {"dims", Shape{}}, {"text", std::string()}},
      {{"integers", Ints{1, -2}},
       {"reals", Floats{1, -0.0, 1e300, 5e-324, HUGE_VAL, -HUGE_VAL, payload, std::nan("")}}},
      {{"real", payload},
       {"dtype", DType::bf16},
       {"dims", Shape{odd * Dim(2) + 1, floor_div(odd, 3), min(odd, 4), -1}}},
      {{"tensor", HostTensor::of<float>({2}, {1, std::nanf("0x123")})}, {"real", 1.0}},
      {{"tensor", HostTensor::of<std::int64_t>({}, {7})}, {"real", -1e20}, {"integer", std::int64_t{-1}}},
  };
  for (const Attributes& attributes : sets) {
    Builder builder(graph);
    builder.call(kEvery, {x, ValueId::none, x}, attributes, kHard);
    REQUIRE_MESSAGE(builder.ok(), builder.status().error().message);
  }
  graph.add_output(kHard, x);
  check_round_trip(graph);
}

TEST_CASE("constants of every dtype come back, listed or as hex") {
  std::mt19937_64 random(1);
  Graph graph;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const StaticShape& shape : {StaticShape{}, {0}, {3}, {2, 2, 4}, {17}, {3, 0, 5}}) {
      HostTensor tensor = HostTensor::allocate(dtype, shape).value();
      for (std::byte& byte : tensor.mutable_bytes())
        byte = static_cast<std::byte>(random() & (dtype == DType::boolean ? 1 : 255));
      graph.add_constant(tensor);
    }
  }
  check_round_trip(graph);
}

TEST_CASE("assumptions come back in their order, with quoted symbols on both sides") {
  Graph graph;
  const Dim a = Dim::symbol("a == b", {0, 100}), b = Dim::symbol("c \"d\" <= e", {0, 100});
  const ValueId x = graph.add_input("x", {DType::f32, {a}}), y = graph.add_input("y", {DType::f32, {b}});
  graph.require({Constraint::Kind::less_equal, a + 1, b * Dim(2), "before any \"node\"\nwith <= in it"});
  Builder builder(graph);
  builder.add(x, y);
  graph.require({Constraint::Kind::equal, floor_div(a, 2), mod(b, Dim(3)), ""});
  graph.require({Constraint::Kind::less_equal, 7, b, "last"});
  REQUIRE(graph.constraints().size() == 4);
  check_round_trip(graph);
}

TEST_CASE("a fusion comes back with its body, whose assumptions are the graph's") {
  Graph body;
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  const ValueId p = body.add_input("p", {DType::f32, {n}}), q = body.add_input("q", {DType::f32, {m}});
  Builder inner(body);
  body.add_output("y", inner.exp(inner.add(p, q)));
  Graph graph;
  for (Constraint& constraint : body.take_constraints()) graph.require(std::move(constraint));
  const ValueId x = graph.add_input("x", {DType::f32, {n}}), z = graph.add_input("z", {DType::f32, {m}});
  graph.add_output("y", Builder(graph).fusion(std::move(body), {x, z}));
  REQUIRE(verify(graph));
  check_round_trip(graph);
}

TEST_CASE("random graphs come back") {
  test::for_each_seed(400, [](std::uint64_t seed) {
    INFO("DIJI_TEST_SEED=", seed);
    check_round_trip(test::RandomGraph(seed, {.steps = 8, .special_values = true}).graph());
  });
}

struct Malformed {
  const char* text;
  const char* error;
};

TEST_CASE("errors say line and column") {
  const Malformed cases[] = {
      {"", "line 1, column 1: 'graph' expected"},
      {"graph g {", "line 1, column 7: '\"' expected"},
      {"graph \"g", "line 1, column 9: a string that does not end"},
      {"graph \"g\" {", "line 1, column 12: '}' expected"},
      {"graph \"g\" { } more", "line 1, column 15: text after the end of the graph"},
      {"graph \"g\" {\n  inputs\n}", "line 2, column 3: 'inputs' begins no line of a graph"},
      {"graph \"g\" {\n  input %0 \"x\" : f31[2]\n}", "line 2, column 17: 'f31' is not a dtype"},
      {"graph \"g\" {\n  input %0 \"x\" : f32[N]\n}", "line 2, column 22: "},
      {"graph \"g\" {\n  input %0 \"x\" : f32[2]\n  input %0 \"y\" : f32[2]\n}",
       "line 3, column 10: %0 is defined twice"},
      {"graph \"g\" {\n  %0 = prim.nothing()\n}", "line 2, column 8: 'prim.nothing' is not an operator"},
      {"graph \"g\" {\n  %1 = prim.exp(%0)\n}", "line 2, column 18: %0 is not defined above"},
      {"graph \"g\" {\n  output \"y\" = _\n}", "line 2, column 15: an output needs a value"},
      {"graph \"g\" {\n  %0 = constant f32[2] {1.0}\n}", "line 2, column 16: 1 elements given, 2 wanted"},
      {"graph \"g\" {\n  %0 = constant f32[1] {1.0, 2.0}\n}",
       "line 2, column 30: more elements than the shape has"},
      {"graph \"g\" {\n  %0 = constant u8[1] {256}\n}",
       "line 2, column 24: '256' is not a number of this kind"},
      {"graph \"g\" {\n  %0 = constant f32[1099511627776] hex\"00\"\n}",
       "line 2, column 16: the shape has more elements than the text"},
      {"graph \"g\" {\n  %0 = constant f32[-1] {}\n}",
       "line 2, column 16: the shape has more elements than the text"},
      {"graph \"g\" {\n  %0 = constant f32[1] hex\"0000\"\n}", "line 2, column 28: hex data is cut off"},
      {"graph \"g\" {\n  %0 = constant f32[1] hex\"00zz0000\"\n}",
       "line 2, column 30: a hexadecimal digit expected"},
      {"graph \"g\" {\n  %0 = constant bool[1] hex\"02\"\n}",
       "line 2, column 29: a bool that is neither 00 nor 01"},
      {"graph \"g\" {\n  symbol N in [3, 2]\n}", "line 2, column 21: bounds [min, max] expected"},
      {"graph \"g\" {\n  require 1 = 2 \"why\"\n}", "line 2, column 11: == or <= expected"},
      {"graph \"g\" {\n  require 1 == 2\n}",
       "line 2, column 16: a reason in quotes expected at the end of the line"},
      {"graph \"\\xz0\" {\n}", "line 1, column 9: two hexadecimal digits expected"},
      {"graph \"g\" {\n  %0 = constant f32[1] {1.0}\n  %1 = prim.exp(%0) : f32[2]\n}",
       "line 3, column 8: the type is f32[1], not f32[2]"},
      {"graph \"g\" {\n  %0, %1 = constant f32[1] {1.0}\n}", "line 2, column 12: constant has 1 results"},
      {"graph \"g\" {\n  %0 = constant i32[1] {1}\n  %1 = prim.exp(%0)\n}",
       "line 3, column 8: prim.exp: input 'x' cannot be i32"},
  };
  for (const Malformed& one : cases) {
    CAPTURE(one.text);
    const auto graph = parse(one.text);
    REQUIRE_FALSE(graph);
    EXPECT(graph.error().code == ErrorCode::malformed);
    EXPECT(graph.error().message.substr(0, std::string_view(one.error).size()) == one.error);
  }
}

// Whatever bytes change: an error with a place, or a graph that verify() and print() can look at.
TEST_CASE("random mutations of a text are errors or graphs") {
  std::vector<std::string> texts;
  for (std::uint64_t seed = 1; seed <= 12; ++seed)
    texts.push_back(print(test::RandomGraph(seed, {.steps = 6}).graph()));
  constexpr std::string_view kPieces[] = {"",
                                          " ",
                                          "\n",
                                          "\"",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          "(",
                                          ")",
                                          ",",
                                          "%",
                                          "_",
                                          "=",
                                          "==",
                                          "<=",
                                          "-",
                                          "0",
                                          "9",
                                          "99999999999",
                                          "1e9",
                                          "N",
                                          "hex\"",
                                          "prim.fusion",
                                          "prim.concatenate",
                                          "dims[",
                                          "ints[",
                                          "graph \"x\" {",
                                          "floordiv",
                                          "\\"};
  int graphs = 0;
  constexpr std::uint64_t kMutations = 20'000;
  test::for_each_seed(kMutations, [&](std::uint64_t seed) {
    INFO("DIJI_TEST_SEED=", seed);
    std::mt19937_64 random(seed);
    std::string text = texts[random() % texts.size()];
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % text.size(),
                        length = std::min<std::size_t>(random() % 4, text.size() - at);
      text.replace(at, length, kPieces[random() % std::size(kPieces)]);
    }
    const auto graph = parse(text);
    if (!graph) {
      EXPECT(graph.error().code == ErrorCode::malformed);
      EXPECT(graph.error().message.starts_with("line "));
      return;
    }
    ++graphs;
    (void)verify(*graph);
    EXPECT_FALSE(print(*graph).empty());
  });
  if (std::getenv("DIJI_TEST_SEED") == nullptr) EXPECT(graphs > static_cast<int>(kMutations) / 100);
}

}  // namespace
}  // namespace diji
