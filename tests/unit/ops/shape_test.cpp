// Shape operators against NumPy's rules, with static and symbolic sizes.
#include "tests/unit/expect.h"
#include "tests/unit/ops/call.h"

namespace diji {
namespace {

using test::Call;
using test::N;

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

Call reshape(Shape from, std::initializer_list<std::int64_t> to, std::int64_t allow_zero = 0) {
  return std::move(
      Call("reshape", {{"allowzero", allow_zero}}).input(DType::f32, std::move(from)).constant(ints(to)));
}

TEST_CASE("reshape: copies with 0, infers one -1, exactly under a symbolic batch") {
  EXPECT(reshape({2, 3, 4}, {0, -1}).type() == "f32[2, 12]");
  EXPECT(reshape({2, 3, 4}, {-1}).type() == "f32[24]");
  EXPECT(reshape({N, 3, 4}, {0, -1}).type() == "f32[N, 12]");
  EXPECT(reshape({N, 3, 4}, {-1, 4}).type() == "f32[3*N, 4]");
  EXPECT(reshape({N, 3, 4}, {-1, 12}).type() == "f32[N, 12]");
  EXPECT(reshape({0, 3}, {3, 0}, 1).type() == "f32[3, 0]");
  EXPECT(reshape({}, {1, 1}).type() == "f32[1, 1]");
  EXPECT(reshape({1}, {}).type() == "f32[]");
}

TEST_CASE("reshape: what it refuses") {
  EXPECT(reshape({2, 3}, {-1, -1}).type() == "reshape: more than one -1 in the target [-1, -1]");
  EXPECT(reshape({2, 3}, {2, 3, 0}).type() == "reshape: a 0 at position 2 copies no axis of [2, 3]");
  EXPECT(reshape({0, 3}, {0, -1}, 1).type() == "reshape: -1 cannot be inferred beside a size of 0");
  EXPECT(reshape({2, 3}, {4}).type() == "reshape: element counts of [2, 3] and [4] differ: 6 and 4");
  EXPECT(reshape({2, 3}, {-2, 3}).type() == "reshape: [-2, 3] is not a shape: sizes are 0 … 2^63-1");
  EXPECT(reshape({2, 3}, {4, -1}).type() == "reshape: element counts of [2, 3] and [4, 1] differ: 6 and 4");
  EXPECT(Call("reshape")
             .input(DType::f32, {2})
             .input(DType::i64, {N})
             .type()
             .contains("how many elements 'shape' has (i64[N]) is computed from data"));
  EXPECT(Call("reshape").input(DType::f32, {2}).type() == "reshape: input 'shape' is missing");
  // An expression that names all sizes in each of them would take a file of a few bytes seconds.
  EXPECT(Call("reshape").input(DType::f32, {2}).input(DType::i64, {16}).type().starts_with("f32["));
  EXPECT(Call("reshape").input(DType::f32, {2}).input(DType::i64, {79}).type() ==
         "reshape: a target of 79 sizes that data decide; at most 16 are possible");
}

TEST_CASE("reshape: a size that fits only some batches is checked at every run") {
  Call call = reshape({N, 3}, {2, 6});
  EXPECT(call.type() == "f32[2, 6]");
  Call run = reshape({N, 3}, {2, 6});
  EXPECT(run.run({sample_tensor(DType::f32, {4, 3}, Fill::normal)}));
  Call wrong = reshape({N, 3}, {2, 6});
  const auto result = wrong.run({sample_tensor(DType::f32, {5, 3}, Fill::normal)});
  REQUIRE_FALSE(result);
  EXPECT(result.error().message.contains("3*N = 15 must be equal to 12 = 12"));
}

// Elements of x = 0, 1, 2, … of one axis of `size` under a slice.
std::string sliced(std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t step,
                   bool symbolic) {
  Call call("slice");
  call.input(DType::i64, {symbolic ? N : Dim(size)})
      .constant(ints({start}))
      .constant(ints({end}))
      .constant(ints({0}))
      .constant(ints({step}));
  std::vector<std::int64_t> x;
  for (std::int64_t i = 0; i < size; ++i) x.push_back(i);
  const auto y = call.run({HostTensor::of<std::int64_t>({size}, std::span<const std::int64_t>(x))});
  return y ? fmt::format("{}", fmt::join(y->as_int64(), " ")) : y.error().message;
}

TEST_CASE("slice: Python's positions, clamped, forwards and backwards, static and symbolic") {
  for (const bool symbolic : {false, true}) {
    CAPTURE(symbolic);
    EXPECT(sliced(5, 1, 3, 1, symbolic) == "1 2");
    EXPECT(sliced(5, 0, kEnd, 1, symbolic) == "0 1 2 3 4");
    EXPECT(sliced(5, -2, kEnd, 1, symbolic) == "3 4");
    EXPECT(sliced(5, -100, 100, 2, symbolic) == "0 2 4");
    EXPECT(sliced(5, 1, -1, 2, symbolic) == "1 3");
    EXPECT(sliced(5, 4, 1, 1, symbolic) == "");
    EXPECT(sliced(5, 7, 9, 1, symbolic) == "");
    EXPECT(sliced(5, kEnd, kEnd, 1, symbolic) == "");
    EXPECT(sliced(5, 4, 0, -1, symbolic) == "4 3 2 1");
    EXPECT(sliced(5, kEnd, -kEnd, -1, symbolic) == "4 3 2 1 0");
    EXPECT(sliced(5, -1, std::numeric_limits<std::int64_t>::min(), -2, symbolic) == "4 2 0");
    EXPECT(sliced(5, -1, -100, -1, symbolic) == "4 3 2 1 0");
    EXPECT(sliced(5, 0, 4, -1, symbolic) == "");
    EXPECT(sliced(5, 3, -5, -1, symbolic) == "3 2 1");
    EXPECT(sliced(0, 0, kEnd, 1, symbolic) == "");
    EXPECT(sliced(0, -1, -kEnd, -1, symbolic) == "");
    EXPECT(sliced(1, 0, 1, 100, symbolic) == "0");
  }
}

TEST_CASE("slice: every start, end and step near the ends agrees with Python, static and symbolic") {
  for (const std::int64_t size : {0, 1, 4}) {
    for (std::int64_t start = -6; start <= 6; ++start) {
      for (std::int64_t end = -6; end <= 6; ++end) {
        for (const std::int64_t step : {-3, -2, -1, 1, 2, 3}) {
          // CPython's PySlice_AdjustIndices.
          const std::int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
          std::int64_t first = start < 0 ? std::max(start + size, low) : std::min(start, high);
          const std::int64_t last = end < 0 ? std::max(end + size, low) : std::min(end, high);
          std::vector<std::int64_t> wanted;
          for (; step < 0 ? first > last : first < last; first += step) wanted.push_back(first);
          CAPTURE(size);
          CAPTURE(start);
          CAPTURE(end);
          CAPTURE(step);
          const std::string text = fmt::format("{}", fmt::join(wanted, " "));
          EXPECT(sliced(size, start, end, step, false) == text);
          EXPECT(sliced(size, start, end, step, true) == text);
        }
      }
    }
  }
}

TEST_CASE("slice: types and sentences") {
  const auto slice = [](std::initializer_list<std::int64_t> starts, std::initializer_list<std::int64_t> ends,
                        std::initializer_list<std::int64_t> axes, std::initializer_list<std::int64_t> steps) {
    return Call("slice")
        .input(DType::f32, {N, 8})
        .constant(ints(starts))
        .constant(ints(ends))
        .constant(ints(axes))
        .constant(ints(steps))
        .type();
  };
  EXPECT(slice({0}, {kEnd}, {0}, {1}) == "f32[N, 8]");
  EXPECT(slice({1}, {3}, {-1}, {1}) == "f32[N, 2]");
  EXPECT(slice({0, 0}, {kEnd, 4}, {0, 1}, {2, 1}) == "f32[(N + 1) floordiv 2, 4]");
  EXPECT(slice({0}, {1}, {2}, {1}) == "slice: axis 2 is out of range for 2 axes; use -2..1");
  EXPECT(slice({0}, {1}, {0}, {0}) == "slice: a step of 0 on axis 0");
  EXPECT(slice({0, 0}, {1}, {0}, {1}) == "slice: starts, ends, axes and steps have 2, 1, 1 and 1 elements");
  EXPECT(slice({0, 0}, {1, 1}, {1, -1}, {1, 1}) == "slice: axis -1 stands twice");
}

TEST_CASE("shape: a range of axes, clamped") {
  const auto shape = [](std::int64_t start, std::int64_t end) {
    Call call("shape", {{"start", start}, {"end", end}});
    call.input(DType::f32, {N, 3, 4});
    EXPECT_FALSE(call.type().empty());
    return text_of(*contents_of(call.graph(), call.graph().nodes()[0].outputs[0]));
  };
  EXPECT(shape(0, 3) == "[N, 3, 4]");
  EXPECT(shape(-2, 100) == "[3, 4]");
  EXPECT(shape(-100, -2) == "[N]");
  EXPECT(shape(2, 1) == "[]");
}

TEST_CASE("concat: types and sentences") {
  EXPECT(Call("concat", {{"axis", std::int64_t{-1}}})
             .input(DType::f32, {N, 2})
             .input(DType::f32, {N, 3})
             .type() == "f32[N, 5]");
  EXPECT(Call("concat", {{"axis", std::int64_t{0}}})
             .input(DType::f32, {N, 2})
             .input(DType::f32, {3, 2})
             .type() == "f32[N + 3, 2]");
  EXPECT(Call("concat", {{"axis", std::int64_t{0}}})
             .input(DType::f32, {1, 2})
             .input(DType::f32, {1, 3})
             .type() == "concat: sizes of axis 1 differ: 2 and 3");
  EXPECT(Call("concat", {{"axis", std::int64_t{2}}}).input(DType::f32, {1, 2}).type() ==
         "concat: axis 2 is out of range for 2 axes; use -2..1");
  EXPECT(Call("concat").input(DType::f32, {1}).type() == "concat: attribute 'axis' is missing");
  EXPECT(Call("concat", {{"axis", std::int64_t{0}}}).type() == "concat: input 'inputs' is missing");
  EXPECT(Call("concat", {{"axis", std::int64_t{0}}})
             .input(DType::f32, {1})
             .absent()
             .input(DType::f32, {1})
             .type() == "concat: input 'inputs' is missing");
  EXPECT(Call("concat", {{"axis", std::int64_t{0}}}).input(DType::f32, {1}).input(DType::f64, {1}).type() ==
         "concat: input 'inputs' is f64, another of the same type is f32");
  EXPECT(Call("concat", {{"axis", std::int64_t{0}}})
             .input(DType::f32, {1})
             .input(DType::f32, {1, 1})
             .type()
             .starts_with("concat: parts"));
}

TEST_CASE("expand: both sides broadcast") {
  const auto expand = [](Shape from, std::initializer_list<std::int64_t> to) {
    return Call("expand").input(DType::f32, std::move(from)).constant(ints(to)).type();
  };
  EXPECT(expand({3, 1}, {3, 4}) == "f32[3, 4]");
  EXPECT(expand({3, 4}, {2, 1, 1}) == "f32[2, 3, 4]");
  EXPECT(expand({N, 1}, {1, 5}) == "f32[N, 5]");
  EXPECT(expand({}, {2, 2}) == "f32[2, 2]");
  EXPECT(expand({3}, {4}) == "expand: shapes [3] and [4] do not broadcast: 3 and 4 on axis 0");
  EXPECT(expand({1}, {-1}).contains("is not a shape"));
}

TEST_CASE("unsqueeze and squeeze: axes from either end") {
  const auto unsqueeze = [](Shape from, std::initializer_list<std::int64_t> axes) {
    return Call("unsqueeze").input(DType::f32, std::move(from)).constant(ints(axes)).type();
  };
  EXPECT(unsqueeze({3, N}, {0, -1}) == "f32[1, 3, N, 1]");
  EXPECT(unsqueeze({}, {0}) == "f32[1]");
  EXPECT(unsqueeze({3}, {}) == "f32[3]");
  EXPECT(unsqueeze({3}, {2}) == "unsqueeze: axis 2 is out of range for 2 axes; use -2..1");
  EXPECT(unsqueeze({3}, {0, -3}) == "unsqueeze: axis -3 stands twice");
  const auto squeeze = [](Shape from, std::initializer_list<std::int64_t> axes) {
    return Call("squeeze").input(DType::f32, std::move(from)).constant(ints(axes)).type();
  };
  EXPECT(squeeze({1, 3, 1}, {0, -1}) == "f32[3]");
  EXPECT(squeeze({N, 3}, {0}) == "f32[3]");
  EXPECT(squeeze({3}, {0}) == "squeeze: axis 0 has size 3 and cannot be dropped");
  EXPECT(Call("squeeze").input(DType::f32, {1, 3, 1}).type() == "f32[3]");
  EXPECT(Call("squeeze").input(DType::f32, {1, N}).type() ==
         "squeeze: without axes the rank depends on N; ranks that depend on data are not built yet");
  Call call("squeeze");
  call.input(DType::f32, {N, 3}).constant(ints({0}));
  const auto two = call.run({sample_tensor(DType::f32, {2, 3}, Fill::normal)});
  REQUIRE_FALSE(two);
  EXPECT(two.error().message.contains("N = 2 must be equal to 1 = 1"));
}

TEST_CASE("transpose: reversed by default; what is no permutation is refused") {
  const auto transpose = [](Ints perm) {
    return Call("transpose", {{"perm", std::move(perm)}}).input(DType::f32, {2, N}).type();
  };
  EXPECT(Call("transpose").input(DType::f32, {2, N}).type() == "f32[N, 2]");
  EXPECT(transpose({1, 0}) == "f32[N, 2]");
  EXPECT(transpose({0, 1}) == "f32[2, N]");
  EXPECT(transpose({0, 0}) == "transpose: axis 0 stands twice");
  EXPECT(transpose({1, 2}) == "transpose: axis 2 is out of range for 2 axes");
  EXPECT(transpose({0}) == "transpose: 1 axes permuted for a tensor of 2");
}

}  // namespace
}  // namespace diji
