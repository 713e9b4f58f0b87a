// Matrix products and convolutions on the CPU against the interpreter: tails on every axis, blocks of the
// contracted axis, few rows, both layouts of the right side, every geometry of a convolution.
#include "graph/interpreter.h"
#include "ops/samples.h"
#include "runtime/conformance.h"
#include "tests/unit/runtime/fixture.h"

#include <cmath>

namespace diji {
namespace {

using Sizes = std::vector<std::int64_t>;

// Sizes as symbols, so that one executable meets them all, or as numbers.
struct Dot {
  std::string lhs, rhs, attributes, symbols;
};

std::string graph_text(const Dot& dot, DType dtype) {
  return fmt::format(R"(graph "dot" {{
    {}
    input %a "a" : {}[{}]
    input %b "b" : {}[{}]
    %y = prim.dot_general(%a, %b) {{{}}}
    output "y" = %y
  }})",
                     dot.symbols, name_of(dtype), dot.lhs, name_of(dtype), dot.rhs, dot.attributes);
}

const std::string kSymbols =
    "symbol B in [0, 1048576]\n symbol M in [0, 1048576]\n symbol N in [0, 1048576]\n symbol K in [0, "
    "1048576]";
const std::string kPlain =
    "lhs_batch = ints[], lhs_contracting = ints[1], rhs_batch = ints[], rhs_contracting = ints[0]";
const std::string kTransposed =
    "lhs_batch = ints[], lhs_contracting = ints[1], rhs_batch = ints[], rhs_contracting = ints[1]";
const std::string kLeftTransposed =
    "lhs_batch = ints[], lhs_contracting = ints[0], rhs_batch = ints[], rhs_contracting = ints[0]";
const std::string kBatched =
    "lhs_batch = ints[0], lhs_contracting = ints[2], rhs_batch = ints[0], rhs_contracting = ints[1]";

std::unique_ptr<Session> session_of(DeviceList& devices, const std::string& text) {
  auto session = Session::of(devices, test::graph_from(text), {});
  REQUIRE_MESSAGE(session.has_value(), (session ? std::string() : session.error().message));
  return std::move(*session);
}

// The result, found right.
HostTensor checked(Session& session, const std::string& text, const HostTensor& a, const HostTensor& b) {
  const auto got = session.run({{"a", a}, {"b", b}});
  REQUIRE_MESSAGE(got.has_value(), (got ? std::string() : got.error().message));
  const auto truth = interpret_with_bounds(test::graph_from(text), std::vector{a, b});
  REQUIRE(truth.has_value());
  const Comparison compared = compare_with_truth((*got)[0], (*truth)[0].value, (*truth)[0].bound);
  CAPTURE(compared.problem);
  EXPECT(compared.ok);
  return (*got)[0];
}

void check_sizes(const Dot& dot, DType dtype, const std::vector<std::pair<Sizes, Sizes>>& all) {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const std::string text = graph_text(dot, dtype);
  CAPTURE(text);
  const auto session = session_of(devices, text);
  for (const auto& [left, right] : all) {
    CAPTURE(fmt::format("[{}] [{}]", fmt::join(left, ", "), fmt::join(right, ", ")));
    checked(*session, text, sample_tensor(dtype, left, Fill::normal, 1),
            sample_tensor(dtype, right, Fill::normal, 2));
  }
}

TEST_CASE("products of all sizes from one kernel") {
  std::vector<std::pair<Sizes, Sizes>> sizes;
  for (const std::int64_t m : {1, 2, 4, 5, 8, 12, 13, 23, 53, 100})
    for (const std::int64_t n : {1, 16, 33, 70}) sizes.push_back({{m, 7}, {7, n}});
  for (const std::int64_t k : {0, 1, 3, 4, 65, 1536, 1537, 3100}) {
    for (const std::int64_t m : {1, 3, 14}) sizes.push_back({{m, k}, {k, 37}});
  }
  sizes.push_back({{0, 5}, {5, 8}});
  sizes.push_back({{8, 5}, {5, 0}});
  sizes.push_back({{3, 20}, {20, 4500}});  // several blocks of columns for few rows
  sizes.push_back({{60, 20}, {20, 700}});
  check_sizes({"M, K", "K, N", kPlain, kSymbols}, DType::f32, sizes);
}

TEST_CASE("products in other dtypes") {
  const std::vector<std::pair<Sizes, Sizes>> sizes = {
      {{1, 9}, {9, 33}}, {{4, 1540}, {1540, 9}}, {{17, 1540}, {1540, 35}}};
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16, DType::i32, DType::i8, DType::u64})
    check_sizes({"M, K", "K, N", kPlain, kSymbols}, dtype, sizes);
}

TEST_CASE("sides with the contracted axis first or last") {
  std::vector<std::pair<Sizes, Sizes>> right, left;
  for (const std::int64_t m : {1, 4, 13, 29}) {
    for (const std::int64_t k : {1, 15, 16, 33, 1600}) {
      right.push_back({{m, k}, {37, k}});
      left.push_back({{k, m}, {k, 37}});
    }
  }
  check_sizes({"M, K", "N, K", kTransposed, kSymbols}, DType::f32, right);
  check_sizes({"K, M", "K, N", kLeftTransposed, kSymbols}, DType::f32, left);
  check_sizes({"M, K", "N, K", kTransposed, kSymbols}, DType::f16, {{{5, 40}, {19, 40}}});
}

TEST_CASE("batches, and products of known sizes") {
  check_sizes(
      {"B, M, K", "B, K, N", kBatched, kSymbols}, DType::f32,
      {{{3, 5, 7}, {3, 7, 9}}, {{0, 5, 7}, {0, 7, 9}}, {{2, 1, 40}, {2, 40, 50}}, {{2, 30, 1}, {2, 1, 50}}});
  check_sizes({"1, 1600", "1600, 40", kPlain, ""}, DType::f32, {{{1, 1600}, {1600, 40}}});
  check_sizes({"3, 10", "10, 40", kPlain, ""}, DType::f32, {{{3, 10}, {10, 40}}});
  check_sizes({"29, 1600", "1600, 40", kPlain, ""}, DType::f32, {{{29, 1600}, {1600, 40}}});
}

TEST_CASE("a row of a product has the same bits whatever stands beside it") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 3);
  const std::string text = graph_text({"M, K", "K, N", kPlain, kSymbols}, DType::f32);
  const auto session = session_of(devices, text);
  constexpr std::int64_t kDepth = 1601, kColumns = 45;
  const HostTensor a = sample_tensor(DType::f32, {40, kDepth}, Fill::normal, 1);
  const HostTensor b = sample_tensor(DType::f32, {kDepth, kColumns}, Fill::normal, 2);
  const auto all = session->run({{"a", a}, {"b", b}});
  REQUIRE(all.has_value());
  for (const std::int64_t rows : {1, 2, 4, 5, 11, 12, 25}) {
    CAPTURE(rows);
    const auto values = a.values<float>().first(static_cast<std::size_t>(rows * kDepth));
    const auto some = session->run(
        {{"a", HostTensor::of<float>({rows, kDepth}, std::vector<float>(values.begin(), values.end()))},
         {"b", b}});
    REQUIRE(some.has_value());
    const auto wanted = (*all)[0].values<float>().first(static_cast<std::size_t>(rows * kColumns));
    EXPECT(std::ranges::equal((*some)[0].values<float>(), wanted));
  }
}

struct Geometry {
  std::string x, w, attributes;
  Sizes x_sizes, w_sizes;
};

std::string graph_text(const Geometry& geometry, DType dtype) {
  return fmt::format(R"(graph "convolution" {{
    symbol B in [0, 1048576]
    symbol H in [1, 1048576]
    symbol W in [1, 1048576]
    input %a "a" : {}[{}]
    input %b "b" : {}[{}]
    %y = conv(%a, %b) {{{}}}
    output "y" = %y
  }})",
                     name_of(dtype), geometry.x, name_of(dtype), geometry.w, geometry.attributes);
}

std::vector<Geometry> geometries() {
  return {
      {"B, 3, W", "5, 3, 3", "pads = ints[1, 1]", {2, 3, 37}, {5, 3, 3}},
      {"B, 3, W",
       "5, 3, 4",
       "strides = ints[3], pads = ints[0, 5], dilations = ints[2]",
       {2, 3, 57},
       {5, 3, 4}},
      {"B, 40, H, W", "13, 40, 1, 1", "", {2, 40, 7, 9}, {13, 40, 1, 1}},
      {"B, 40, H, W", "3, 40, 1, 1", "", {1, 40, 9, 9}, {3, 40, 1, 1}},
      {"B, 4, H, W", "13, 4, 1, 1", "strides = ints[2, 2]", {2, 4, 7, 9}, {13, 4, 1, 1}},
      {"B, 4, H, W", "13, 4, 3, 3", "pads = ints[1, 1, 1, 1]", {2, 4, 7, 7}, {13, 4, 3, 3}},
      {"B, 4, H, W", "13, 4, 3, 3", "pads = ints[1, 1, 1, 1]", {1, 4, 30, 33}, {13, 4, 3, 3}},
      {"B, 4, H, W", "13, 4, 3, 3", "pads = ints[1, 1, 1, 1]", {0, 4, 30, 33}, {13, 4, 3, 3}},
      {"B, 4, H, W", "13, 4, 3, 3", "pads = ints[1, 1, 1, 1]", {3, 4, 5, 1}, {13, 4, 3, 3}},
      {"B, 4, H, W", "6, 4, 3, 2", "", {1, 4, 9, 30}, {6, 4, 3, 2}},
      {"B, 4, H, W",
       "6, 4, 3, 5",
       "strides = ints[2, 3], pads = ints[0, 4, 2, 1], dilations = ints[2, 1]",
       {2, 4, 19, 23},
       {6, 4, 3, 5}},
      {"B, 200, H, W", "14, 200, 3, 3", "pads = ints[1, 1, 1, 1]", {1, 200, 5, 6}, {14, 200, 3, 3}},
      {"B, 6, H, W", "9, 2, 3, 3", "group = 3, pads = ints[1, 1, 1, 1]", {2, 6, 8, 8}, {9, 2, 3, 3}},
      {"B, 2, 5, H, W", "7, 2, 3, 3, 2", "pads = ints[1, 1, 0, 1, 1, 1]", {1, 2, 5, 6, 7}, {7, 2, 3, 3, 2}},
      // one channel a group
      {"B, 3, W", "3, 1, 3", "group = 3, pads = ints[1, 1]", {2, 3, 100}, {3, 1, 3}},
      {"B, 3, W", "6, 1, 11", "group = 3, pads = ints[0, 7]", {2, 3, 100}, {6, 1, 11}},
      {"B, 3, H, W", "3, 1, 3, 3", "group = 3, pads = ints[1, 1, 1, 1]", {2, 3, 20, 99}, {3, 1, 3, 3}},
      {"B, 3, H, W", "3, 1, 3, 3", "group = 3, pads = ints[1, 1, 1, 1]", {1, 3, 2, 1}, {3, 1, 3, 3}},
      {"B, 3, H, W",
       "3, 1, 3, 3",
       "group = 3, pads = ints[1, 1, 1, 1], strides = ints[2, 2]",
       {2, 3, 20, 150},
       {3, 1, 3, 3}},
      {"B, 3, H, W",
       "3, 1, 3, 3",
       "group = 3, pads = ints[0, 2, 1, 0], strides = ints[1, 3], dilations = ints[2, 2]",
       {2, 3, 20, 150},
       {3, 1, 3, 3}},
      {"B, 2, 4, H, W", "4, 1, 2, 3, 3", "group = 2", {2, 2, 4, 5, 40}, {4, 1, 2, 3, 3}},
  };
}

TEST_CASE("convolutions of every geometry") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  for (const Geometry& geometry : geometries()) {
    for (const DType dtype : {DType::f32, DType::f16}) {
      const std::string text = graph_text(geometry, dtype);
      CAPTURE(text);
      const auto session = session_of(devices, text);
      checked(*session, text, sample_tensor(dtype, geometry.x_sizes, Fill::normal, 1),
              sample_tensor(dtype, geometry.w_sizes, Fill::normal, 2));
    }
  }
}

TEST_CASE("what lies outside of x takes no part, not even with an infinite weight") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  for (const Geometry& geometry : geometries()) {
    const std::string text = graph_text(geometry, DType::f32);
    CAPTURE(text);
    const auto session = session_of(devices, text);
    const HostTensor finite = sample_tensor(DType::f32, geometry.w_sizes, Fill::positive, 2);
    std::vector<float> weights(finite.values<float>().begin(), finite.values<float>().end());
    weights[0] = HUGE_VALF;
    checked(*session, text, sample_tensor(DType::f32, geometry.x_sizes, Fill::positive, 1),
            HostTensor::of<float>(geometry.w_sizes, weights));
  }
}

}  // namespace
}  // namespace diji
