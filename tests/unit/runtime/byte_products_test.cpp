// Products of 8-bit integers: every pair of signs, tails of quads, padding with a zero point, and what the
// pass integer_products makes of dequantised tensors.
#include "graph/interpreter.h"
#include "ops/samples.h"
#include "passes/passes.h"
#include "runtime/conformance.h"
#include "tests/unit/runtime/fixture.h"

namespace diji {
namespace {

constexpr std::array kSigns = {std::pair{DType::u8, DType::u8}, std::pair{DType::u8, DType::i8},
                               std::pair{DType::i8, DType::u8}, std::pair{DType::i8, DType::i8}};

// The ends of the range, where sums are largest, and a few odd ones between.
HostTensor extremes(DType dtype, StaticShape shape, std::size_t every) {
  HostTensor tensor = HostTensor::allocate(dtype, std::move(shape)).value();
  const auto bytes = tensor.mutable_bytes();
  std::ranges::fill(bytes, dtype == DType::u8 ? std::byte{0xff} : std::byte{0x80});
  for (std::size_t i = every / 2; i < bytes.size(); i += every)
    bytes[i] = static_cast<std::byte>(0x7d + i % 5);
  return tensor;
}

// One executable for inputs of several sizes, each result found right.
class Checker {
 public:
  explicit Checker(std::string text) : text_(std::move(text)), devices_(built_in_plugins(), 2) {
    auto session = Session::of(devices_, test::graph_from(text_), {});
    REQUIRE_MESSAGE(session.has_value(), (session ? std::string() : session.error().message));
    session_ = std::move(*session);
  }
  void check(const std::vector<std::pair<std::string, HostTensor>>& inputs) {
    CAPTURE(text_);
    std::vector<HostTensor> values;
    for (const auto& [name, value] : inputs) values.push_back(value);
    const auto got = session_->run({inputs.begin(), inputs.end()});
    REQUIRE_MESSAGE(got.has_value(), (got ? std::string() : got.error().message));
    const auto truth = interpret_with_bounds(test::graph_from(text_), values);
    REQUIRE(truth.has_value());
    const Comparison compared = compare_with_truth((*got)[0], (*truth)[0].value, (*truth)[0].bound);
    CAPTURE(compared.problem);
    EXPECT(compared.ok);
    EXPECT(compared.unproved == 0);
  }

 private:
  const test::ScratchCache cache_;
  std::string text_;
  DeviceList devices_;
  std::unique_ptr<Session> session_;
};

struct Layout {
  std::string_view a, b, attributes;
  StaticShape (*a_shape)(std::int64_t m, std::int64_t k);
  StaticShape (*b_shape)(std::int64_t k, std::int64_t n);
};
const std::array kLayouts = {
    Layout{"M, K", "K, N", "lhs_contracting = ints[1], rhs_contracting = ints[0]",
           [](std::int64_t m, std::int64_t k) -> StaticShape { return {m, k}; },
           [](std::int64_t k, std::int64_t n) -> StaticShape { return {k, n}; }},
    Layout{"M, K", "N, K", "lhs_contracting = ints[1], rhs_contracting = ints[1]",
           [](std::int64_t m, std::int64_t k) -> StaticShape { return {m, k}; },
           [](std::int64_t k, std::int64_t n) -> StaticShape { return {n, k}; }},
    Layout{"K, M", "K, N", "lhs_contracting = ints[0], rhs_contracting = ints[0]",
           [](std::int64_t m, std::int64_t k) -> StaticShape { return {k, m}; },
           [](std::int64_t k, std::int64_t n) -> StaticShape { return {k, n}; }},
};

TEST_CASE("products of 8-bit integers are exact, whatever sizes and layouts") {
  for (const Layout& layout : kLayouts) {
    for (const auto& [lhs, rhs] : kSigns) {
      Checker checker(fmt::format(R"(graph "bytes" {{
        symbol M in [0, 1048576]
        symbol N in [0, 1048576]
        symbol K in [0, 1048576]
        input %a "a" : {}[{}]
        input %b "b" : {}[{}]
        %y = prim.dot_general(%a, %b) {{lhs_batch = ints[], rhs_batch = ints[], {}, dtype = i32}}
        output "y" = %y
      }})",
                                  name_of(lhs), layout.a, name_of(rhs), layout.b, layout.attributes));
      for (const std::int64_t m : {1, 3, 29}) {
        for (const std::int64_t k : {0, 1, 3, 4, 67, 256, 700, 7000}) {
          for (const std::int64_t n : {1, 37})
            checker.check({{"a", extremes(lhs, layout.a_shape(m, k), 7)},
                           {"b", extremes(rhs, layout.b_shape(k, n), 11)}});
        }
      }
    }
  }
}

struct Geometry {
  std::string_view name;
  StaticShape x, w;
  std::string_view strides, dilations, pads_low, pads_high;
  int groups = 1;
};
const std::array kGeometries = {
    Geometry{"1x1", {2, 5, 6, 7}, {14, 5, 1, 1}, "1, 1", "1, 1", "0, 0", "0, 0"},
    Geometry{"1x1 deep", {1, 70, 3, 3}, {3, 70, 1, 1}, "1, 1", "1, 1", "0, 0", "0, 0"},
    Geometry{"3x3 padded", {1, 3, 9, 40}, {5, 3, 3, 3}, "1, 1", "1, 1", "1, 1", "1, 1"},
    Geometry{"3x3 stride 2", {1, 3, 12, 11}, {13, 3, 3, 3}, "2, 2", "1, 1", "1, 0", "0, 1"},
    Geometry{"dilated", {1, 2, 9, 9}, {2, 2, 3, 2}, "1, 1", "2, 3", "2, 0", "1, 3"},
    Geometry{"two groups", {1, 6, 5, 5}, {4, 3, 3, 3}, "1, 1", "1, 1", "1, 1", "1, 1", 2},
    Geometry{"depthwise", {2, 3, 7, 70}, {3, 1, 3, 3}, "1, 1", "1, 1", "1, 1", "1, 1", 3},
    Geometry{"depthwise stride 2", {1, 4, 9, 75}, {8, 1, 5, 5}, "2, 2", "1, 1", "2, 2", "2, 1", 4},
    Geometry{"depthwise stride 3", {1, 2, 20, 61}, {2, 1, 3, 4}, "3, 3", "1, 2", "0, 1", "2, 1", 2},
    Geometry{"depthwise wide", {1, 2, 13, 60}, {2, 1, 13, 11}, "1, 1", "1, 1", "6, 5", "6, 5", 2},
    Geometry{"1-d", {2, 4, 50}, {6, 4, 5}, "1", "1", "2", "2"},
    Geometry{"3-d", {1, 2, 4, 5, 6}, {3, 2, 2, 2, 2}, "1, 1, 1", "1, 1, 1", "1, 0, 1", "0, 1, 0"},
};

TEST_CASE("convolutions of 8-bit integers are exact, padded with a zero point too") {
  for (const Geometry& geometry : kGeometries) {
    for (const auto& [x, w] : kSigns) {
      for (const int padding : {0, x == DType::u8 ? 200 : -100}) {
        CAPTURE(geometry.name);
        CAPTURE(padding);
        Checker checker(fmt::format(
            R"(graph "bytes" {{
        input %x "x" : {}[{}]
        input %w "w" : {}[{}]
        %y = prim.convolution(%x, %w) {{strides = ints[{}], dilations = ints[{}], pads_low = dims[{}],
                                        pads_high = dims[{}],
                                        groups = {}, padding_value = {}, dtype = i32}}
        output "y" = %y
      }})",
            name_of(x), fmt::join(geometry.x, ", "), name_of(w), fmt::join(geometry.w, ", "),
            geometry.strides, geometry.dilations, geometry.pads_low, geometry.pads_high, geometry.groups,
            padding));
        checker.check({{"x", extremes(x, geometry.x, 3)}, {"w", extremes(w, geometry.w, 5)}});
      }
    }
  }
}

// A convolution as quantisers write it.
constexpr std::string_view kQuantised = R"(graph "quantised" {
  symbol N in [1, 64]
  input %x "x" : f32[N, 4, 6, 5]
  %sx = constant f32[] {0.03}
  %zx = constant u8[] {121}
  %sw = constant f32[3] {0.02, 0.05, 0.01}
  %zw = constant i8[3] {0, 0, 0}
  %w = constant i8[3, 4, 1, 2] {1, -2, 3, 100, -128, 127, 8, 9, 10, -11, 12, 13, -14, 15,
                                    77, 0, 17, 18, -19, 20, 21, 99, 23, -24}
  %q = quantize_linear(%x, %sx, %zx)
  %d = dequantize_linear(%q, %sx, %zx)
  %f = dequantize_linear(%w, %sw, %zw) {axis = 0}
  %c = conv(%d, %f) {pads = ints[0, 1, 0, 1]}
  %r = relu(%c)
  output "y" = %r
})";

TEST_CASE("a quantised convolution is one of 8-bit integers, and as right") {
  const std::string text(kQuantised);
  const auto optimised = run_pipeline(test::graph_from(text), {});
  REQUIRE_MESSAGE(optimised.has_value(), (optimised ? std::string() : optimised.error().message));
  EXPECT(print(*optimised).find("padding_value = 121") != std::string::npos);
  EXPECT(print(*optimised).find("dtype = i32") != std::string::npos);
  Checker checker(text);
  for (const std::int64_t n : {1, 3})
    checker.check({{"x", sample_tensor(DType::f32, {n, 4, 6, 5}, Fill::normal)}});
}

}  // namespace
}  // namespace diji
