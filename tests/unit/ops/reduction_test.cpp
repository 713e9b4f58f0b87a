// Reductions: which axes are folded, what stays, what is refused.
#include "tests/unit/expect.h"
#include "tests/unit/ops/call.h"

namespace diji {
namespace {

using test::Call;
using test::N;

std::string reduce(std::initializer_list<std::int64_t> axes, std::int64_t keep, std::int64_t noop) {
  return Call("reduce_sum", {{"keepdims", keep}, {"noop_with_empty_axes", noop}})
      .input(DType::f32, {N, 3, 4})
      .constant(ints(axes))
      .type();
}

TEST_CASE("axes, keepdims and noop_with_empty_axes") {
  EXPECT(reduce({1}, 0, 0) == "f32[N, 4]");
  EXPECT(reduce({-1, 0}, 0, 0) == "f32[3]");
  EXPECT(reduce({-1, 0}, 1, 0) == "f32[1, 3, 1]");
  EXPECT(reduce({}, 1, 0) == "f32[1, 1, 1]");
  EXPECT(reduce({}, 0, 0) == "f32[]");
  EXPECT(reduce({}, 0, 1) == "f32[N, 3, 4]");
  EXPECT(Call("reduce_sum").input(DType::f32, {N, 3}).type() == "f32[1, 1]");
}

TEST_CASE("sentences") {
  EXPECT(reduce({3}, 1, 0) == "reduce_sum: axis 3 is out of range for 3 axes; use -3..2");
  EXPECT(reduce({1, -2}, 1, 0) == "reduce_sum: axis 1 stands twice");
  EXPECT(Call("reduce_sum").input(DType::f32, {3}).input(DType::i64, {1}).type() ==
         "reduce_sum: 'axes' are not known when the model is loaded");
  EXPECT(Call("global_max_pool").input(DType::f32, {2, 3}).type() ==
         "global_max_pool: x of shape [2, 3] has no spatial axes");
}

TEST_CASE("over nothing: 0, minus infinity, the smallest integer, false") {
  const auto over_nothing = [](std::string_view op, DType dtype) {
    Call call(op, {{"keepdims", std::int64_t{0}}});
    call.input(dtype, {2, 0}).constant(ints({1}));
    return call.run({HostTensor::allocate(dtype, {2, 0}).value()})->as_double(1);
  };
  EXPECT(over_nothing("reduce_sum", DType::f32) == 0);
  EXPECT(over_nothing("reduce_max", DType::f32) == -std::numeric_limits<double>::infinity());
  EXPECT(over_nothing("reduce_max", DType::i8) == -128);
  EXPECT(over_nothing("reduce_max", DType::u16) == 0);
  EXPECT(over_nothing("reduce_max", DType::boolean) == 0);
}

TEST_CASE("integer sums wrap") {
  Call call("reduce_sum");
  call.input(DType::i8, {3}).constant(ints({0}));
  EXPECT(call.run({HostTensor::of<std::int8_t>({3}, {100, 100, 100})})->as_int64()[0] == 44);
}

}  // namespace
}  // namespace diji
