// Models in which values decide ranks or axes: right for all of their contents, compiled once for each.
#include "base/files.h"
#include "tests/unit/formats/onnx_writer.h"
#include "tests/unit/runtime/fixture.h"

namespace diji {
namespace {

using test::node;
using test::tensor_info;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kBool = 9;

HostTensor floats(StaticShape shape, std::initializer_list<float> values) {
  return HostTensor::of<float>(std::move(shape), std::span<const float>(values.begin(), values.size()));
}
HostTensor numbers(const Numbers& values) {
  return HostTensor::of<std::int64_t>({std::ssize(values)}, std::span<const std::int64_t>(values));
}
HostTensor truth(bool value) {
  const bool one[] = {value};
  return HostTensor::of<bool>({}, std::span<const bool>(one));
}

std::map<std::string, HostTensor> inputs(const Numbers& a, bool c) {
  return {{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"a", numbers(a)}, {"c", truth(c)}};
}

// x f32[A, B], a i64[K], c bool; the outputs have no declared type.
class Model {
 public:
  Model(std::vector<test::Message> nodes, std::initializer_list<std::string_view> outputs,
        std::initializer_list<test::FunctionSpec> functions = {}) {
    test::GraphSpec graph{
        .nodes = std::move(nodes),
        .initializers = {test::int_tensor("zero", {0}), test::int_tensor("one", {1})},
        .inputs = {tensor_info("x", test::kFloat, {std::string_view("A"), std::string_view("B")}),
                   tensor_info("a", test::kInt64, {std::string_view("K")}), tensor_info("c", kBool, {})},
        .outputs = {}};
    for (const std::string_view name : outputs) graph.outputs.push_back(test::value_info(name, {}));
    const auto path = cache_.folder() / "m.onnx";
    REQUIRE(write_file_atomically(path, test::model_with(graph, functions).bytes()).has_value());
    opened_ = Session::open(devices_, path, {});
  }

  const Result<std::unique_ptr<Session>>& opened() const { return opened_; }
  Session& session() { return **opened_; }
  std::vector<HostTensor> run(const Numbers& a, bool c = true) {
    REQUIRE_MESSAGE(opened_.has_value(), (opened_ ? std::string() : opened_.error().message));
    auto got = session().run(inputs(a, c));
    REQUIRE_MESSAGE(got.has_value(), (got ? std::string() : got.error().message));
    return *std::move(got);
  }

 private:
  test::ScratchCache cache_;
  DeviceList devices_{built_in_plugins(), 1};
  Result<std::unique_ptr<Session>> opened_;
};

TEST_CASE("axes are told by an input, or computed") {
  Model model({node("ReduceSum", {"x", "a"}, {"y"}, {test::int_attribute("keepdims", 0)}),
               node("Sub", {"one", "a"}, {"other"}),
               node("ReduceSum", {"x", "other"}, {"z"}, {test::int_attribute("keepdims", 0)})},
              {"y", "z"});
  const HostTensor columns = floats({3}, {5, 7, 9}), rows = floats({2}, {6, 15});
  for (const bool again : {false, true}) {
    CAPTURE(again);
    const auto first = model.run({0}), second = model.run({1}), both = model.run({0, 1});
    EXPECT(first[0].same_bits(columns));
    EXPECT(first[1].same_bits(rows));
    EXPECT(second[0].same_bits(rows));
    EXPECT(second[1].same_bits(columns));
    EXPECT(both[0].same_bits(floats({}, {21})));
  }
  EXPECT(model.session().outputs()[1].name == "z");
  EXPECT(model.session().coverage().host == 0);
}

TEST_CASE("contents that came up before compile nothing, and those of long ago go") {
  Model model({node("Reshape", {"x", "a"}, {"r"}), node("Relu", {"r"}, {"y"})}, {"y"});
  EXPECT(model.run({3, 2})[0].shape() == StaticShape{3, 2});
  EXPECT(model.run({1, 6, 1})[0].shape() == StaticShape{1, 6, 1});
  EXPECT(model.run({-1})[0].same_bits(floats({6}, {1, 2, 3, 4, 5, 6})));
  const auto modules = model.session().module_count();
  model.run({3, 2});
  EXPECT(model.session().module_count() == modules);
  Numbers ones = {6};
  for (int rank = 0; rank < 20; ++rank) {
    ones.push_back(1);
    EXPECT(model.run(ones)[0].shape().size() == ones.size());
  }
  EXPECT(model.session().module_count() <= 17);
}

TEST_CASE("one value decides how another is computed, which decides the rank of a result") {
  // x summed over a, the sum as the axis of another sum: 6 - 6 = 0, and 21 - 20 = 1.
  Model model(
      {node("ReduceSum", {"a", "zero"}, {"s"}, {test::int_attribute("keepdims", 1)}),
       node("ReduceSum", {"x", "s"}, {"t"}, {test::int_attribute("keepdims", 0)}),
       node("Shape", {"t"}, {"n"}), node("Sub", {"n", "one"}, {"m"}), node("Sub", {"m", "one"}, {"k"}),
       node("Relu", {"k"}, {"unused"}), node("Mul", {"s", "zero"}, {"o"}), node("Add", {"o", "s"}, {"q"}),
       node("Unsqueeze", {"t", "q"}, {"y"})},
      {"y"});
  EXPECT(model.run({0, 1})[0].same_bits(floats({2, 1}, {6, 15})));
  EXPECT(model.run({1, -1})[0].same_bits(floats({1, 3}, {5, 7, 9})));
}

TEST_CASE("branches of different ranks") {
  const auto branch = [](const test::Message& inside, std::string_view output) {
    return test::GraphSpec{
        .nodes = {inside}, .initializers = {}, .inputs = {}, .outputs = {test::value_info(output, {})}}
        .message();
  };
  Model model(
      {node("If", {"c"}, {"r"},
            {test::graph_attribute("then_branch", branch(node("Flatten", {"x"}, {"t"}), "t")),
             test::graph_attribute(
                 "else_branch",
                 branch(node("ReduceSum", {"x", "one"}, {"e"}, {test::int_attribute("keepdims", 0)}), "e"))}),
       node("Neg", {"r"}, {"y"})},
      {"y"});
  EXPECT(model.run({0}, true)[0].same_bits(floats({2, 3}, {-1, -2, -3, -4, -5, -6})));
  EXPECT(model.run({0}, false)[0].same_bits(floats({2}, {-6, -15})));
}

TEST_CASE("a value inside of a function decides where the function's operands tell it, and is refused else") {
  const auto fold = [](const test::Message& axes) {
    return test::FunctionSpec{
        .name = "Fold",
        .inputs = {"v", "w"},
        .outputs = {"u"},
        .attributes = {},
        .defaults = {},
        .nodes = {axes, node("ReduceSum", {"v", "n"}, {"u"}, {test::int_attribute("keepdims", 0)})}};
  };
  const std::vector<test::Message> call = {test::own_node("Fold", {"x", "a"}, {"y"})};
  Model told(call, {"y"}, {fold(node("Neg", {"w"}, {"n"}))});
  EXPECT(told.run({2})[0].same_bits(floats({3}, {5, 7, 9})));
  Model not_told(call, {"y"}, {fold(node("ArgMax", {"v"}, {"n"}, {test::int_attribute("keepdims", 0)}))});
  // What it is computed from has no name in the model's own graph: knowing 'a' does not help.
  const auto refused = not_told.session().run(inputs({2}, true));
  REQUIRE_FALSE(refused.has_value());
  EXPECT(refused.error().code == ErrorCode::unsupported);
  EXPECT(refused.error().message.contains("'axes' are not known when the model is loaded"));
}

}  // namespace
}  // namespace diji
