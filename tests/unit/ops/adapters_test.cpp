// Older forms of a model format become the records' own.
#include "ops/adapters.h"

#include "ops/catalog.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

struct Adapted {
  Graph graph;
  ForeignNode node;
  Result<void> result;
};

Adapted adapt(std::string_view type, std::int64_t version, Attributes attributes, std::size_t inputs = 1) {
  Adapted adapted;
  adapted.node = {.version = version, .inputs = {}, .attributes = std::move(attributes)};
  for (std::size_t i = 0; i < inputs; ++i)
    adapted.node.inputs.push_back(adapted.graph.add_input(fmt::format("{}", i), {DType::i64, {2}}));
  Builder builder(adapted.graph);
  adapted.result = find_onnx(type)->onnx.adapt(builder, adapted.node);
  return adapted;
}

std::string contents(const Adapted& adapted, std::size_t input) {
  const auto elements = contents_of(adapted.graph, adapted.node.inputs.at(input));
  return elements ? text_of(*elements) : "unknown";
}

TEST_CASE("axes as an attribute become the second input") {
  for (const char* type : {"ReduceSum", "ReduceMax", "Squeeze", "Unsqueeze"}) {
    CAPTURE(type);
    const Adapted adapted = adapt(type, 1, {{"axes", Ints{0, -1}}});
    REQUIRE(adapted.result);
    REQUIRE(adapted.node.inputs.size() == 2);
    EXPECT(contents(adapted, 1) == "[0, -1]");
    EXPECT_FALSE(adapted.node.attributes.has("axes"));
  }
}

TEST_CASE("nothing happens where the attribute is absent") {
  const Adapted adapted = adapt("ReduceSum", 13, {{"keepdims", std::int64_t{0}}}, 2);
  REQUIRE(adapted.result);
  EXPECT(adapted.node.inputs.size() == 2);
  EXPECT(adapted.node.attributes.has("keepdims"));
}

TEST_CASE("given twice is refused") {
  const Adapted adapted = adapt("Squeeze", 13, {{"axes", Ints{0}}}, 2);
  REQUIRE_FALSE(adapted.result);
  EXPECT(adapted.result.error().message == "'axes' is given as an attribute and as an input");
}

TEST_CASE("the first Slice had starts, ends and axes as attributes") {
  const Adapted adapted = adapt("Slice", 1, {{"starts", Ints{1}}, {"ends", Ints{3}}, {"axes", Ints{0}}});
  REQUIRE(adapted.result);
  REQUIRE(adapted.node.inputs.size() == 4);
  EXPECT(contents(adapted, 1) == "[1]");
  EXPECT(contents(adapted, 2) == "[3]");
  EXPECT(contents(adapted, 3) == "[0]");
  const Adapted without_axes = adapt("Slice", 1, {{"starts", Ints{1}}, {"ends", Ints{3}}});
  EXPECT(without_axes.node.inputs.size() == 3);
}

TEST_CASE("the first Concat had a default axis of 1") {
  EXPECT(adapt("Concat", 1, {}).node.attributes.get_or<std::int64_t>("axis", -9) == 1);
  EXPECT(adapt("Concat", 1, {{"axis", std::int64_t{0}}}).node.attributes.get_or<std::int64_t>("axis", -9) ==
         0);
  EXPECT_FALSE(adapt("Concat", 4, {}).node.attributes.has("axis"));
}

TEST_CASE("the first Selu had shorter constants") {
  EXPECT(adapt("Selu", 1, {}).node.attributes.get_or("alpha", 0.0) == 1.6732);
  EXPECT(adapt("Selu", 1, {{"gamma", 2.0}}).node.attributes.get_or("gamma", 0.0) == 2.0);
  EXPECT_FALSE(adapt("Selu", 6, {}).node.attributes.has("alpha"));
}

}  // namespace
}  // namespace diji
