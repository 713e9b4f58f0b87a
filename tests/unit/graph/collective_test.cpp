// Collectives in graphs: shapes, the rule of their order, and what several ranks compute together.
#include "graph/collective.h"

#include "graph/builder.h"
#include "graph/interpreter.h"
#include "graph/text.h"
#include "graph/verify.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

Graph graph_from(std::string_view text) {
  auto graph = parse(text);
  REQUIRE_MESSAGE(graph, (graph ? "" : graph.error().message));
  return std::move(*graph);
}

std::string problem(std::string_view text) {
  const auto graph = parse(text);
  if (!graph) return graph.error().message;
  const auto verified = verify(*graph);
  return verified ? "" : verified.error().message;
}

/// Rank r's input: first + 10 r, one more for each element.
std::vector<std::vector<HostTensor>> inputs_of(std::size_t ranks, StaticShape shape) {
  std::vector<std::vector<HostTensor>> inputs;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    HostTensor tensor = HostTensor::allocate(DType::f32, shape).value();
    float value = 10 * static_cast<float>(rank);
    for (float& element : tensor.mutable_values<float>()) element = value++;
    inputs.push_back({std::move(tensor)});
  }
  return inputs;
}

std::vector<std::vector<float>> run(const Graph& graph, std::span<const MeshAxis> mesh,
                                    std::span<const std::vector<HostTensor>> inputs) {
  const Graph* const one[] = {&graph};
  const auto outputs = interpret_ranks(one, mesh, inputs, Arithmetic::typed);
  REQUIRE_MESSAGE(outputs, (outputs ? "" : outputs.error().message));
  std::vector<std::vector<float>> values;
  for (const auto& rank : *outputs) {
    const auto elements = rank[0].values<float>();
    values.emplace_back(elements.begin(), elements.end());
  }
  return values;
}

using Rows = std::vector<std::vector<float>>;
constexpr std::string_view kOne = R"(graph "one" {
  symbol W in [1, 64]
  symbol N in [0, 1099511627776]
  input %0 "x" : f32[N]
  %1 = prim.OP(%0) {channel = 0, group = "data", ranks = dims[W]EXTRA}
  output "y" = %1
})";

std::string one(std::string_view op, std::string_view extra) {
  std::string text(kOne);
  text.replace(text.find("OP"), 2, op);
  text.replace(text.find("EXTRA"), 5, extra);
  return text;
}

TEST_CASE("what each collective gives each of three ranks") {
  const MeshAxis mesh[] = {{"data", 3}};
  const auto inputs = inputs_of(3, {3});  // 0 1 2, 10 11 12, 20 21 22
  const auto of = [&](std::string_view op, std::string_view extra) {
    return run(graph_from(one(op, extra)), mesh, inputs);
  };
  EXPECT(of("all_reduce", R"(, kind = "sum")") == Rows(3, {30, 33, 36}));
  EXPECT(of("all_reduce", R"(, kind = "max")") == Rows(3, {20, 21, 22}));
  EXPECT(of("all_reduce", R"(, kind = "min")") == Rows(3, {0, 1, 2}));
  EXPECT(of("all_reduce", R"(, kind = "product")") == Rows(3, {0, 231, 528}));
  EXPECT(of("reduce_scatter", R"(, kind = "sum")") == Rows{{30}, {33}, {36}});
  EXPECT(of("all_gather", "") == Rows(3, {0, 1, 2, 10, 11, 12, 20, 21, 22}));
  EXPECT(of("all_to_all", "") == Rows{{0, 10, 20}, {1, 11, 21}, {2, 12, 22}});
  EXPECT(of("collective_broadcast", ", root = 1") == Rows(3, {10, 11, 12}));
}

TEST_CASE("a rank alone has what it gives") {
  for (const auto& [op, extra] : {std::pair{"all_reduce", R"(, kind = "sum")"}, {"all_gather", ""}}) {
    const auto outputs = interpret(graph_from(one(op, extra)), inputs_of(1, {2})[0], Arithmetic::typed);
    REQUIRE(outputs);
    EXPECT((*outputs)[0].same_bits(HostTensor::of<float>({2}, {0, 1})));
  }
}

TEST_CASE("groups of a mesh are its axes") {
  const Graph graph = graph_from(R"(graph "mesh" {
    input %0 "x" : f32[1]
    %1 = prim.all_gather(%0) {channel = 0, group = "model", ranks = dims[2]}
    %2 = prim.all_gather(%1) {channel = 0, group = "data", ranks = dims[3]}
    output "y" = %2
  })");
  const MeshAxis mesh[] = {{"data", 3}, {"model", 2}};
  EXPECT(run(graph, mesh, inputs_of(6, {1})) == Rows(6, {0, 10, 20, 30, 40, 50}));
  const MeshAxis other[] = {{"model", 2}, {"data", 3}};
  const auto swapped = run(graph, other, inputs_of(6, {1}));
  EXPECT(swapped[0] == std::vector<float>{0, 30, 10, 40, 20, 50});
}

TEST_CASE("floats are folded in double and rounded once") {
  const Graph graph = graph_from(one("all_reduce", R"(, kind = "sum")"));
  std::vector<std::vector<HostTensor>> inputs;
  for (const float value : {1e8F, 1.0F, -1e8F, 1.0F}) inputs.push_back({HostTensor::of<float>({1}, {value})});
  const MeshAxis mesh[] = {{"data", 4}};
  EXPECT(run(graph, mesh, inputs) == Rows(4, {2}));
}

TEST_CASE("integers wrap, and never pass through floats") {
  const Graph graph = graph_from(R"(graph "wrap" {
    input %0 "x" : i64[1]
    %1 = prim.all_reduce(%0) {channel = 0, group = "data", kind = "sum", ranks = dims[2]}
    output "y" = %1
  })");
  const std::vector<std::vector<HostTensor>> inputs = {
      {HostTensor::of<std::int64_t>({1}, {std::numeric_limits<std::int64_t>::max()})},
      {HostTensor::of<std::int64_t>({1}, {2})}};
  const MeshAxis mesh[] = {{"data", 2}};
  const Graph* const graphs[] = {&graph};
  const auto outputs = interpret_ranks(graphs, mesh, inputs, Arithmetic::oracle);
  REQUIRE(outputs);
  EXPECT((*outputs)[1][0].as_int64() == Ints{std::numeric_limits<std::int64_t>::min() + 1});
}

TEST_CASE("shapes, also of symbolic sizes") {
  Graph graph;
  Builder b(graph);
  const Dim n = Dim::symbol("N"), w = Dim::symbol("W", {1, 64});
  const ValueId x = graph.add_input("x", {DType::f16, {n, 4}});
  const ValueId gathered = b.all_gather(x, {"data", 0, w});
  EXPECT(b.shape(gathered) == Shape{w * n, 4});
  EXPECT(b.shape(b.reduce_scatter(gathered, Reduction::sum, {"data", 1, w})) ==
         Shape{floor_div(w * n, w), 4});
  EXPECT(b.shape(b.all_to_all(gathered, {"data", 2, w})) == Shape{w * n, 4});
  EXPECT(b.shape(b.all_reduce(x, Reduction::max, {"data", 3, w})) == Shape{n, 4});
  EXPECT(b.shape(b.collective_broadcast(x, 0, {"data", 4, w})) == Shape{n, 4});
  REQUIRE(b.ok());
  EXPECT(verify(graph));
  EXPECT(graph.symbols().contains("W"));
  const std::string text = print(graph);
  EXPECT(print(graph_from(text)) == text);
  EXPECT(groups_of(graph).value() == std::map<std::string, Dim, std::less<>>{{"data", w}});
}

TEST_CASE("operands and attributes that do not fit") {
  const auto with = [](std::string_view type, std::string_view node) {
    return problem(fmt::format("graph \"g\" {{\n input %0 \"x\" : {}\n %1 = prim.{}\n output \"y\" = %1\n}}",
                               type, node));
  };
  EXPECT(with("f32[7]", R"(all_to_all(%0) {channel = 0, group = "d", ranks = dims[2]})")
             .contains("size of axis 0 modulo ranks and 0 differ: 1 and 0"));
  EXPECT(with("f32[]", R"(all_gather(%0) {channel = 0, group = "d", ranks = dims[2]})")
             .contains("a scalar has no axis 0 along which ranks have blocks"));
  EXPECT(with("bool[2]", R"(all_reduce(%0) {channel = 0, group = "d", kind = "sum", ranks = dims[2]})")
             .contains("input 'x' cannot be bool"));
  EXPECT(with("f32[2]", R"(all_reduce(%0) {channel = 0, group = "d", kind = "average", ranks = dims[2]})")
             .contains("kind must be sum, product, min or max"));
  EXPECT(with("f32[2]", R"(all_gather(%0) {channel = 0, group = "", ranks = dims[2]})")
             .contains("its group has no name"));
  EXPECT(with("f32[2]", R"(all_gather(%0) {channel = -1, group = "d", ranks = dims[2]})")
             .contains("channel -1 is below 0"));
  for (const std::string_view ranks : {"dims[0]", "dims[2, 2]", "dims[]"}) {
    EXPECT(with("f32[2]", fmt::format(R"(all_gather(%0) {{channel = 0, group = "d", ranks = {}}})", ranks))
               .contains("ranks must be one number or one symbol, at least 1"));
  }
  EXPECT(with("f32[2]", R"(collective_broadcast(%0) {channel = 0, group = "d", ranks = dims[2], root = 2})")
             .contains("ranks up to the root: 3 is more than 2"));
}

TEST_CASE("channels of a group ascend, each once, through bodies too") {
  const auto two = [](std::string_view first, std::string_view second) {
    return problem(fmt::format(R"(graph "g" {{
      input %0 "x" : f32[2]
      %1 = prim.all_reduce(%0) {{{}, kind = "sum"}}
      %2 = prim.all_reduce(%1) {{{}, kind = "sum"}}
      output "y" = %2
    }})",
                               first, second));
  };
  const std::string_view zero = R"(channel = 0, group = "d", ranks = dims[2])",
                         one = R"(channel = 1, group = "d", ranks = dims[2])",
                         other = R"(channel = 0, group = "m", ranks = dims[4])";
  EXPECT(two(zero, one) == "");
  EXPECT(two(zero, other) == "");
  EXPECT(two(zero, zero)
             .contains("all_reduce in group 'd', channel 0 stands behind all_reduce in group 'd', "
                       "channel 0: channels of a group must ascend"));
  EXPECT(two(one, zero).contains("channels of a group must ascend"));
  EXPECT(two(zero, R"(channel = 1, group = "d", ranks = dims[3])").contains("is of 3 ranks"));
}

Graph body_of(Reduction kind, std::int64_t channel) {
  Graph body;
  const ValueId x = body.add_input("x", {DType::f32, {2}});
  Builder b(body);
  body.add_output("y", b.all_reduce(x, kind, {"d", channel, 2}));
  return body;
}

Graph branching(std::int64_t then, std::int64_t otherwise) {
  Graph graph;
  const ValueId condition = graph.add_input("c", {DType::boolean, {}});
  const ValueId x = graph.add_input("x", {DType::f32, {2}});
  Builder b(graph);
  const Values y =
      b.conditional(condition, body_of(Reduction::sum, then), body_of(Reduction::max, otherwise), {x});
  graph.add_output("y", y[0]);
  REQUIRE(b.ok());
  return graph;
}

TEST_CASE("a branch's collectives stand where their node does, and ranks must take the same branch") {
  EXPECT(verify(branching(0, 1)));
  EXPECT_FALSE(verify(branching(1, 0)));
  EXPECT_FALSE(verify(branching(3, 3)));
  const Graph graph = branching(0, 1);
  const Graph* const graphs[] = {&graph};
  const MeshAxis mesh[] = {{"d", 2}};
  const auto inputs = [](bool first, bool second) {
    return std::vector<std::vector<HostTensor>>{
        {HostTensor::of<bool>({}, {first}), HostTensor::of<float>({2}, {1, 2})},
        {HostTensor::of<bool>({}, {second}), HostTensor::of<float>({2}, {3, 4})}};
  };
  const auto same = interpret_ranks(graphs, mesh, inputs(true, true), Arithmetic::typed);
  REQUIRE(same);
  EXPECT((*same)[1][0].same_bits(HostTensor::of<float>({2}, {4, 6})));
  const auto differ = interpret_ranks(graphs, mesh, inputs(true, false), Arithmetic::typed);
  REQUIRE_FALSE(differ);
  EXPECT(differ.error().code == ErrorCode::call_mismatch);
  EXPECT(
      differ.error().message.contains("rank 0 is at all_reduce in group 'd', channel 0 of f32[2], rank 1 "
                                      "is at all_reduce in group 'd', channel 1 of f32[2]"));
}

TEST_CASE("ranks that disagree are named") {
  const Graph graph = graph_from(one("all_reduce", R"(, kind = "sum")"));
  const Graph none = graph_from(R"(graph "none" {
    symbol N in [0, 1099511627776]
    input %0 "x" : f32[N]
    output "y" = %0
  })");
  const MeshAxis mesh[] = {{"data", 2}};
  const Graph* const graphs[] = {&graph, &none};
  const auto alone = interpret_ranks(graphs, mesh, inputs_of(2, {3}), Arithmetic::typed);
  REQUIRE_FALSE(alone);
  EXPECT(alone.error().code == ErrorCode::call_mismatch);
  EXPECT(
      alone.error().message.contains("no rank can go on: rank 0 is at all_reduce in group 'data', channel "
                                     "0 of f32[3]; rank 1 has ended"));
  const Graph* const same[] = {&graph};
  auto unequal = inputs_of(2, {3});
  unequal[1] = inputs_of(1, {4})[0];
  const auto sizes = interpret_ranks(same, mesh, unequal, Arithmetic::typed);
  REQUIRE_FALSE(sizes);
  EXPECT(sizes.error().message.contains("channel 0 of f32[3], rank 1 is at"));
  EXPECT(sizes.error().message.contains("f32[4]"));
}

TEST_CASE("a rank that fails is named rather than those that waited for it") {
  const Graph graph = graph_from(R"(graph "divides" {
    input %0 "x" : i32[1]
    %1 = constant i32[1] {7}
    %2 = prim.divide(%1, %0)
    %3 = prim.all_reduce(%2) {channel = 0, group = "data", kind = "sum", ranks = dims[2]}
    output "y" = %3
  })");
  const Graph* const graphs[] = {&graph};
  const MeshAxis mesh[] = {{"data", 2}};
  const std::vector<std::vector<HostTensor>> inputs = {{HostTensor::of<std::int32_t>({1}, {1})},
                                                       {HostTensor::of<std::int32_t>({1}, {0})}};
  const auto outputs = interpret_ranks(graphs, mesh, inputs, Arithmetic::typed);
  REQUIRE_FALSE(outputs);
  EXPECT(outputs.error().code == ErrorCode::data);
  EXPECT(outputs.error().message.starts_with("rank 1"));
}

TEST_CASE("a graph for several ranks is refused where there is one, or another mesh") {
  const Graph graph = graph_from(R"(graph "eight" {
    input %0 "x" : f32[8]
    %1 = prim.all_gather(%0) {channel = 0, group = "data", ranks = dims[8]}
    output "y" = %1
  })");
  const auto alone = interpret(graph, inputs_of(1, {8})[0], Arithmetic::typed);
  REQUIRE_FALSE(alone);
  EXPECT(alone.error().code == ErrorCode::usage);
  EXPECT(alone.error().message ==
         "graph 'eight': group 'data' is of 8 ranks and 1 here: interpret_ranks() runs several");
  const Graph* const graphs[] = {&graph};
  const MeshAxis two[] = {{"data", 2}}, model[] = {{"model", 2}};
  EXPECT(interpret_ranks(graphs, two, inputs_of(2, {8}), Arithmetic::typed)
             .error()
             .message.contains("group 'data' is of 8 ranks and 2 here"));
  EXPECT(interpret_ranks(graphs, model, inputs_of(2, {8}), Arithmetic::typed)
             .error()
             .message.contains("group 'data' is no axis of the mesh"));
}

TEST_CASE("a kernel holds no collective") {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {2}});
  Builder b(graph);
  graph.add_output("y", b.fusion(body_of(Reduction::sum, 0), {x}));
  const auto verified = verify(graph);
  REQUIRE_FALSE(verified);
  EXPECT(verified.error().message.contains("a collective inside of a kernel"));
}

}  // namespace
}  // namespace diji
