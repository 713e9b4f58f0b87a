// Recurrent layers: what they say about operands that do not fit.
#include "tests/unit/expect.h"
#include "tests/unit/ops/call.h"

namespace diji {
namespace {

using test::Call;

struct Given {
  std::string name;
  DType dtype;
  Shape shape;
};

// T 5, B 2, I 3, H 4.
std::vector<Given> operands_of(bool quantized) {
  const DType weights = quantized ? DType::u8 : DType::f32;
  std::vector<Given> operands = {{"X", DType::f32, {5, 2, 3}},
                                 {"W", weights, quantized ? Shape{1, 3, 16} : Shape{1, 16, 3}},
                                 {"R", weights, quantized ? Shape{1, 4, 16} : Shape{1, 16, 4}},
                                 {"B", DType::f32, {1, 32}},
                                 {"sequence_lens", DType::i32, {2}},
                                 {"initial_h", DType::f32, {1, 2, 4}},
                                 {"initial_c", DType::f32, {1, 2, 4}},
                                 {"P", DType::f32, {1, 12}}};
  for (const std::string name : {"W", "R"}) {
    if (!quantized) break;
    operands.push_back({name + "_scale", DType::f32, {1}});
    operands.push_back({name + "_zero_point", DType::u8, {1, 16}});
  }
  return operands;
}

std::string type_of(const std::vector<Given>& operands, bool quantized) {
  Call call(quantized ? "dynamic_quantize_lstm" : "lstm");
  for (const Given& one : operands) call.input(one.dtype, one.shape);
  return call.type();
}

TEST_CASE("every operand of a recurrent layer with an axis too few or too many is refused by name") {
  for (const bool quantized : {false, true}) {
    CAPTURE(quantized);
    const std::vector<Given> good = operands_of(quantized);
    EXPECT(type_of(good, quantized) == "f32[5, 1, 2, 4]");
    for (std::size_t i = 0; i < good.size(); ++i) {
      CAPTURE(good[i].name);
      const bool either = good[i].name.contains('_') && !good[i].name.starts_with("initial") &&
                          good[i].name != "sequence_lens";  // scales and zero points: one or two axes
      auto operands = good;
      Shape& shape = operands[i].shape;
      const Shape before = shape;
      if (either) {
        shape = {};
      } else {
        shape.pop_back();
      }
      EXPECT(type_of(operands, quantized).contains(fmt::format(": {} ", good[i].name)));
      shape = before;
      shape.resize(either ? 3 : before.size() + 1, Dim(1));
      EXPECT(type_of(operands, quantized).contains(fmt::format(": {} ", good[i].name)));
      EXPECT(type_of(operands, quantized).ends_with(" axes"));
    }
  }
}

}  // namespace
}  // namespace diji
