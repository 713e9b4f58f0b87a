// Matrix products and convolutions: ranks, batches, padding, and values by hand.
#include "tests/unit/expect.h"
#include "tests/unit/ops/call.h"

namespace diji {
namespace {

using test::Call;
using test::N;

std::string matmul(Shape a, Shape b) {
  return Call("matmul").input(DType::f32, std::move(a)).input(DType::f32, std::move(b)).type();
}

TEST_CASE("matmul: NumPy's ranks and batches") {
  EXPECT(matmul({2, 3}, {3, 4}) == "f32[2, 4]");
  EXPECT(matmul({3}, {3}) == "f32[]");
  EXPECT(matmul({3}, {3, 4}) == "f32[4]");
  EXPECT(matmul({2, 3}, {3}) == "f32[2]");
  EXPECT(matmul({3}, {5, 3, 4}) == "f32[5, 4]");
  EXPECT(matmul({5, 2, 3}, {3}) == "f32[5, 2]");
  EXPECT(matmul({N, 1, 2, 3}, {7, 3, 4}) == "f32[N, 7, 2, 4]");
  EXPECT(matmul({N, 2, 3}, {3, 4}) == "f32[N, 2, 4]");
  EXPECT(matmul({2, 3}, {N, 3, 4}) == "f32[N, 2, 4]");
  EXPECT(matmul({3, 0}, {0, 4}) == "f32[3, 4]");
}

TEST_CASE("matmul: sentences") {
  EXPECT(matmul({2, 3}, {4, 5}) == "matmul: contracted sizes differ: 3 and 4");
  EXPECT(matmul({}, {3}) == "matmul: a scalar operand; at least one axis is needed");
  EXPECT(matmul({2, 2, 3}, {3, 3, 4}) == "matmul: shapes [2] and [3] do not broadcast: 2 and 3 on axis 0");
}

TEST_CASE("matmul: values, and 0 over nothing") {
  Call call("matmul");
  call.input(DType::i32, {2, 2}).input(DType::i32, {2});
  const auto y = call.run(
      {HostTensor::of<std::int32_t>({2, 2}, {1, 2, 3, 4}), HostTensor::of<std::int32_t>({2}, {5, 6})});
  REQUIRE(y);
  EXPECT(y->as_int64() == std::vector<std::int64_t>{17, 39});
  Call nothing("matmul");
  nothing.input(DType::f32, {1, 0}).input(DType::f32, {0, 1});
  EXPECT(nothing.run({HostTensor::of<float>({1, 0}, {}), HostTensor::of<float>({0, 1}, {})})->as_double(0) ==
         0);
}

std::string conv(Shape x, Shape w, Attributes attributes) {
  return Call("conv", std::move(attributes))
      .input(DType::f32, std::move(x))
      .input(DType::f32, std::move(w))
      .type();
}

TEST_CASE("conv: sizes under stride, dilation, padding and groups") {
  EXPECT(conv({N, 3, 10}, {8, 3, 3}, {}) == "f32[N, 8, 8]");
  EXPECT(conv({N, 3, 10}, {8, 3, 3}, {{"pads", Ints{1, 1}}}) == "f32[N, 8, 10]");
  EXPECT(conv({1, 3, 11}, {8, 3, 3}, {{"strides", Ints{2}}}) == "f32[1, 8, 5]");
  EXPECT(conv({1, 3, 10}, {8, 3, 3}, {{"dilations", Ints{3}}}) == "f32[1, 8, 4]");
  EXPECT(conv({1, 6, 10}, {4, 3, 3}, {{"group", std::int64_t{2}}}) == "f32[1, 4, 8]");
  EXPECT(conv({1, 1, N}, {1, 1, 3}, {{"strides", Ints{2}}}) == "f32[1, 1, (N + 1) floordiv 2 - 1]");
}

TEST_CASE("conv: auto_pad gives ceil(in / stride), the odd cell at the named end") {
  for (const std::int64_t size : {5, 6, 7}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const char* mode : {"SAME_UPPER", "SAME_LOWER"}) {
        const Attributes attributes = {{"auto_pad", std::string(mode)}, {"strides", Ints{stride}}};
        EXPECT(conv({1, 1, size}, {1, 1, 4}, attributes) ==
               fmt::format("f32[1, 1, {}]", (size + stride - 1) / stride));
      }
    }
  }
  EXPECT(conv({1, 1, N}, {1, 1, 4}, {{"auto_pad", std::string("SAME_UPPER")}}) == "f32[1, 1, N]");
  EXPECT(conv({1, 1, 9}, {1, 1, 4}, {{"auto_pad", std::string("VALID")}, {"pads", Ints{5, 5}}}) ==
         "f32[1, 1, 6]");
  const auto first = [](const char* mode) {
    Call call("conv", {{"auto_pad", std::string(mode)}});
    call.input(DType::f32, {1, 1, 2}).input(DType::f32, {1, 1, 2});
    return call.run({HostTensor::of<float>({1, 1, 2}, {1, 10}), HostTensor::of<float>({1, 1, 2}, {1, 2})})
        ->as_double(0);
  };
  EXPECT(first("SAME_UPPER") == 21);  // the missing cell is behind
  EXPECT(first("SAME_LOWER") == 2);
}

TEST_CASE("conv: sentences") {
  EXPECT(conv({1, 3}, {8, 3}, {}) == "conv: x [1, 3] and w [8, 3] need equal ranks of at least 3");
  EXPECT(conv({1, 3, 9}, {8, 4, 3}, {}) == "conv: channels of x and of w · groups differ: 3 and 4");
  EXPECT(conv({1, 4, 9}, {3, 2, 3}, {{"group", std::int64_t{2}}}) ==
         "conv: filters modulo groups differ: 1 and 0");
  EXPECT(conv({1, 1, 2}, {1, 1, 3}, {}) == "conv: kernel size of spatial axis 0: 3 is more than 2");
  EXPECT(conv({1, 1, 9}, {1, 1, 3}, {{"kernel_shape", Ints{5}}}) ==
         "conv: kernel_shape [5] does not fit w [1, 1, 3]");
  EXPECT(conv({1, 1, 9}, {1, 1, 3}, {{"pads", Ints{1}}}) ==
         "conv: pads, strides and dilations need 2, 1 and 1 entries for 1 spatial axes");
  EXPECT(conv({1, 1, 9}, {1, 1, 3}, {{"auto_pad", std::string("SOME")}}) ==
         "conv: auto_pad 'SOME' is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER");
  EXPECT(conv({1, 1, 9}, {1, 1, 3}, {{"strides", Ints{0}}, {"auto_pad", std::string("SAME_UPPER")}}) ==
         "conv: strides [0] and dilations [1] must be 1 … 2147483647");
  EXPECT(conv({1, 1, 9}, {1, 1, 3}, {{"group", std::int64_t{0}}}) == "conv: group 0 must be at least 1");
}

}  // namespace
}  // namespace diji
