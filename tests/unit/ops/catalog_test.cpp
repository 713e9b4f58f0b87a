// Every record keeps what the catalogue promises of it.
#include "ops/catalog.h"

#include "graph/builder.h"
#include "graph/interpreter.h"

#include "tests/unit/expect.h"

#include <set>

namespace diji {
namespace {

TEST_CASE("names are unique, and each record says what it is and who vouches for it") {
  std::set<std::string_view> names, onnx_names;
  for (const OpDef* op : catalog()) {
    CAPTURE(op->name);
    EXPECT(names.insert(op->name).second);
    if (!op->onnx.type.empty()) {
      EXPECT(onnx_names.insert(op->onnx.type).second);
      EXPECT_FALSE(op->onnx.versions.empty());
      EXPECT(std::ranges::is_sorted(op->onnx.versions));
      EXPECT(find_onnx(op->onnx.type) == op);
    }
    EXPECT(find_op(op->name) == op);
    EXPECT_FALSE(op->doc.empty());
    EXPECT_FALSE(op->oracle.empty());
    EXPECT_FALSE(op->outputs.empty());
    EXPECT((op->samples != nullptr));
    EXPECT((op->kind != OpKind::composed || op->decompose != nullptr));
  }
  EXPECT(find_op("no such operator") == nullptr);
  EXPECT(find_onnx("") == nullptr);
  EXPECT(find_onnx("NoSuchOperator") == nullptr);
}

TEST_CASE("attributes are named once, in order, with a default or the word required") {
  for (const OpDef* op : catalog()) {
    CAPTURE(op->name);
    std::set<std::string_view> names;
    for (const AttributeDef& attribute : op->attributes) {
      CAPTURE(attribute.name);
      EXPECT(names.insert(attribute.name).second);
      EXPECT((!attribute.doc.empty() || !attribute.default_text.empty()));
    }
    bool may_be_absent = false;
    for (const Operand& operand : op->inputs) {
      EXPECT_FALSE(operand.name.empty());
      EXPECT(operand.dtypes != 0);
      // Optional operands come last, so that they can be left out.
      EXPECT((!may_be_absent || operand.mode != OperandMode::required));
      may_be_absent |= operand.mode != OperandMode::required;
    }
  }
}

// Builds the sample, runs it, and compares inference with what came out.
void check_sample(const OpDef& op, DType dtype, const Sample& sample) {
  CAPTURE(op.name);
  CAPTURE(name_of(dtype));
  CAPTURE(sample.label);
  Graph graph;
  Values values;
  std::vector<HostTensor> fed;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const HostTensor& tensor = sample.inputs[i];
    if (i < sample.constant.size() && sample.constant[i]) {
      values.push_back(graph.add_constant(tensor));
      continue;
    }
    values.push_back(graph.add_input(fmt::format("{}", i),
                                     {tensor.dtype(), Shape(tensor.shape().begin(), tensor.shape().end())}));
    fed.push_back(tensor);
  }
  EXPECT(sample.inputs[0].dtype() == dtype);
  Builder builder(graph);
  const Values outputs = builder.call(op, values, sample.attributes);
  REQUIRE_MESSAGE(builder.ok(), builder.status().error().message);
  for (const ValueId id : outputs) graph.add_output(fmt::format("{}", graph.outputs().size()), id);
  const auto typed = interpret(graph, fed, Arithmetic::typed);
  REQUIRE_MESSAGE(typed, typed.error().message);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Type& inferred = graph.type(outputs[i]);
    EXPECT((*typed)[i].dtype() == inferred.dtype);
    EXPECT(contains(op.outputs[i].dtypes, inferred.dtype));
    const StaticShape& shape = (*typed)[i].shape();
    REQUIRE(shape.size() == inferred.shape.size());
    for (std::size_t axis = 0; axis < shape.size(); ++axis)  // a size that only a run tells is a symbol
      EXPECT(inferred.shape[axis].constant().value_or(shape[axis]) == shape[axis]);
  }
}

TEST_CASE("every sample of every dtype is accepted, runs, and has the shape and dtype that were inferred") {
  for (const OpDef* op : catalog()) {
    for (std::size_t i = 0; i < kDTypeCount; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (!contains(op->inputs[0].dtypes, dtype)) continue;
      const auto samples = op->samples(dtype);
      CAPTURE(op->name);
      CAPTURE(name_of(dtype));
      EXPECT_FALSE(samples.empty());
      for (const Sample& sample : samples) check_sample(*op, dtype, sample);
    }
  }
}

TEST_CASE("a dtype outside of a record's set is refused by name") {
  for (const OpDef* op : catalog()) {
    if (contains(op->inputs[0].dtypes, DType::boolean)) continue;
    CAPTURE(op->name);
    Graph graph;
    const ValueId x = graph.add_input("x", {DType::boolean, {2, 3, 4}});
    Builder builder(graph);
    builder.call(*op, Values(op->inputs.size(), x), {});
    REQUIRE_FALSE(builder.ok());
    EXPECT(builder.status().error().message ==
           fmt::format("{}: input '{}' cannot be bool", op->name, op->inputs[0].name));
    EXPECT(builder.status().error().op == op->name);
  }
}

}  // namespace
}  // namespace diji
