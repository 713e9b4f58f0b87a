// Sequences, optionals and widened constants: values that exist at import only.
#include "formats/onnx/import.h"

#include "graph/interpreter.h"
#include "graph/verify.h"
#include "tests/unit/formats/expect_error.h"
#include "tests/unit/formats/onnx_writer.h"

#include <string>
#include <vector>

namespace diji::test {
namespace {

// x f32[1, 4] and constants in; the outputs have no declared type.
Message graph_of(std::vector<Message> nodes, std::initializer_list<std::string_view> outputs) {
  GraphSpec graph = small_graph(std::move(nodes));
  graph.inputs = {tensor_info("x", kFloat, {std::int64_t{1}, std::int64_t{4}})};
  for (const auto& [name, value] :
       {std::pair<std::string_view, std::int64_t>("zero", 0), {"one", 1}, {"last", -1}, {"seven", 7}})
    graph.initializers.push_back(raw_tensor(name, kInt64, {}, bytes_of_values({value})));
  graph.initializers.push_back(int_tensor("sizes", {1, 3}));
  graph.outputs.clear();
  for (const std::string_view name : outputs) graph.outputs.push_back(value_info(name, {}));
  return model_of(graph, 18);
}

std::vector<HostTensor> run(const Message& model) {
  const auto imported = import(model);
  if (!imported) MESSAGE(imported.error().message);
  REQUIRE(imported.has_value());
  EXPECT(verify(imported->graph).has_value());
  auto outputs =
      interpret(imported->graph, std::vector{HostTensor::of<float>({1, 4}, {1, 2, 3, 4})}, Arithmetic::typed);
  REQUIRE(outputs.has_value());
  return *outputs;
}

TEST_CASE("sequences are built, changed, measured and joined") {
  const auto outputs = run(graph_of(
      {node("SequenceEmpty", {}, {"s0"}), node("SequenceInsert", {"s0", "x"}, {"s1"}),
       node("Exp", {"x"}, {"e"}), node("SequenceInsert", {"s1", "e", "zero"}, {"s2"}),
       node("SequenceInsert", {"s2", "x", "last"}, {"s3"}), node("SequenceErase", {"s3", "zero"}, {"s4"}),
       node("SequenceLength", {"s3"}, {"n"}), node("SequenceAt", {"s4", "last"}, {"at"}),
       node("ConcatFromSequence", {"s4"}, {"z"}, {int_attribute("axis", -1)}),
       node("ConcatFromSequence", {"s4"}, {"w"}, {int_attribute("axis", -1), int_attribute("new_axis", 1)})},
      {"n", "at", "z", "w"}));
  EXPECT(outputs[0].same_bits(HostTensor::of<std::int64_t>({}, {3})));
  EXPECT(outputs[1].same_bits(HostTensor::of<float>({1, 4}, {1, 2, 3, 4})));
  EXPECT(outputs[2].same_bits(HostTensor::of<float>({1, 8}, {1, 2, 3, 4, 1, 2, 3, 4})));
  EXPECT(outputs[3].same_bits(HostTensor::of<float>({1, 4, 2}, {1, 1, 2, 2, 3, 3, 4, 4})));
}

TEST_CASE("tensors are split into pieces of one, of a size, and of given sizes") {
  const auto pieces =
      run(graph_of({node("SplitToSequence", {"x"}, {"s"}, {int_attribute("axis", 1)})}, {"s"}));
  REQUIRE(pieces.size() == 4);
  EXPECT(pieces[2].same_bits(HostTensor::of<float>({1, 1}, {3})));
  const auto rows = run(graph_of(
      {node("SplitToSequence", {"x"}, {"s"}, {int_attribute("axis", 1), int_attribute("keepdims", 0)})},
      {"s"}));
  EXPECT(rows[3].same_bits(HostTensor::of<float>({1}, {4})));
  const auto uneven =
      run(graph_of({node("Add", {"one", "one"}, {"two"}), node("Add", {"two", "one"}, {"three"}),
                    node("SplitToSequence", {"x", "three"}, {"s"}, {int_attribute("axis", 1)})},
                   {"s"}));
  REQUIRE(uneven.size() == 2);
  EXPECT(uneven[1].same_bits(HostTensor::of<float>({1, 1}, {4})));
  const auto given =
      run(graph_of({node("SplitToSequence", {"x", "sizes"}, {"s"}, {int_attribute("axis", 1)})}, {"s"}));
  EXPECT(given[1].same_bits(HostTensor::of<float>({1, 3}, {2, 3, 4})));
}

TEST_CASE("the outputs of a sequence are ports with numbers") {
  const auto model = import(graph_of({node("SequenceConstruct", {"x", "y"}, {"s"})}, {"s"}));
  REQUIRE(model.has_value());
  REQUIRE(model->graph.outputs().size() == 2);
  EXPECT(model->graph.outputs()[0].name == "s[0]");
  EXPECT(model->graph.outputs()[1].name == "s[1]");
}

TEST_CASE("a body is applied to each tensor of a sequence") {
  const Message body = GraphSpec{
      .nodes = {node("Constant", {}, {"k"}, {real_attribute("value_float", 2)}),
                node("Mul", {"el", "k"}, {"m"}), node("Add", {"m", "other"}, {"o"})},
      .inputs = {value_info("el", {}), value_info("other", {})},
      .outputs = {value_info(
          "o", {})}}.message();
  const auto outputs = run(graph_of({node("SequenceConstruct", {"x", "x"}, {"s"}),
                                     node("SequenceMap", {"s", "y"}, {"t"}, {graph_attribute("body", body)})},
                                    {"t"}));
  REQUIRE(outputs.size() == 2);
  EXPECT(outputs[1].same_bits(HostTensor::of<float>({1, 4}, {3, 6, 9, 12})));
}

TEST_CASE("optionals are known at import") {
  const auto outputs =
      run(graph_of({node("Optional", {"x"}, {"some"}), node("Optional", {}, {"none"}),
                    node("OptionalGetElement", {"some"}, {"z"}), node("OptionalHasElement", {"some"}, {"a"}),
                    node("OptionalHasElement", {"none"}, {"b"}), node("OptionalHasElement", {}, {"c"}),
                    node("OptionalHasElement", {"x"}, {"d"}), node("OptionalGetElement", {"x"}, {"e"})},
                   {"z", "a", "b", "c", "d", "e", "some"}));
  EXPECT(outputs[0].same_bits(HostTensor::of<float>({1, 4}, {1, 2, 3, 4})));
  EXPECT(outputs[1].same_bits(HostTensor::of<bool>({}, {true})));
  EXPECT(outputs[2].same_bits(HostTensor::of<bool>({}, {false})));
  EXPECT(outputs[3].same_bits(HostTensor::of<bool>({}, {false})));
  EXPECT(outputs[4].same_bits(HostTensor::of<bool>({}, {true})));
  EXPECT(outputs[5].same_bits(outputs[0]));
  EXPECT(outputs[6].same_bits(outputs[0]));
}

TEST_CASE("what sequences and optionals refuse") {
  const auto refused = [](std::vector<Message> nodes, ErrorCode code,
                          std::initializer_list<std::string_view> words) {
    expect_error(import(graph_of(std::move(nodes), {"z"})), code, words);
  };
  const Message make = node("SequenceConstruct", {"x", "x"}, {"s"});
  refused({make, node("SequenceAt", {"s", "seven"}, {"z"})}, ErrorCode::malformed,
          {"position 7", "2 tensors"});
  refused({make, node("Exp", {"s"}, {"z"})}, ErrorCode::mismatch, {"'s'", "a tensor is wanted"});
  refused({node("SequenceLength", {"x"}, {"z"})}, ErrorCode::mismatch, {"no sequence"});
  refused({node("SequenceConstruct", {"x", "one"}, {"z"})}, ErrorCode::mismatch, {"i64", "f32"});
  refused({make, node("SequenceErase", {"s", "one"}, {"t"}, {int_attribute("axes", 0)}),
           node("SequenceAt", {"t", "zero"}, {"z"})},
          ErrorCode::unsupported, {"no attribute 'axes'"});
  refused({make, node("SequenceAt", {"s", "data"}, {"z"}),
           node("Cast", {"scalar"}, {"data"}, {int_attribute("to", kInt64)}),
           node("ReduceMax", {"x"}, {"scalar"}, {int_attribute("keepdims", 0)})},
          ErrorCode::unsupported, {"depends on data"});
  refused({node("SequenceEmpty", {}, {"s"}),
           node("ConcatFromSequence", {"s"}, {"z"}, {int_attribute("axis", 0)})},
          ErrorCode::malformed, {"empty sequence"});
  refused({node("Optional", {}, {"n"}), node("OptionalGetElement", {"n"}, {"z"})}, ErrorCode::malformed,
          {"no element"});
  refused({node("Optional", {}, {"z"})}, ErrorCode::unsupported, {"'z'", "optional without an element"});
}

TEST_CASE("widened constants move, and compute only where the result is the same") {
  const auto model = [](std::vector<Message> nodes) {
    GraphSpec graph = small_graph(std::move(nodes));
    graph.initializers.push_back(raw_tensor("q", 22, {3}, {"\x8f\x07", 2}));
    graph.outputs = {value_info("z", {})};
    return import(graph, 21);
  };
  const Message moved = node("Unsqueeze", {"q", "axes"}, {"u"});
  const Message axes = node("Constant", {}, {"axes"}, {ints_attribute("value_ints", {0})});
  const auto cast = model({axes, moved, node("Cast", {"u"}, {"z"}, {int_attribute("to", kFloat)})});
  REQUIRE(cast.has_value());
  const auto outputs =
      interpret(cast->graph, std::vector{HostTensor::of<float>({1, 4}, {1, 2, 3, 4})}, Arithmetic::typed);
  EXPECT(outputs->at(0).same_bits(HostTensor::of<float>({1, 3}, {-1, -8, 7})));
  expect_error(model({axes, moved, node("Add", {"u", "u"}, {"z"})}), ErrorCode::unsupported, {"'u'", "INT4"});
  EXPECT(model({axes, node("Unsqueeze", {"q", "axes"}, {"z"})}).has_value());  // an i8 each
}

}  // namespace
}  // namespace diji::test
