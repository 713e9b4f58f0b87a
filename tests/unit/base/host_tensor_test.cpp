// HostTensor: allocation and its errors, views, sharing, element access, and the CHECKs on wrong use.
#include "base/host_tensor.h"

#include "tests/unit/expect.h"

#include <algorithm>
#include <cmath>
#include <limits>

// A tensor too large for the machine must be an Error: sanitizers abort on such a request unless told
// otherwise.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }  // NOLINT
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }  // NOLINT

namespace diji {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST_CASE("a new tensor is zero, aligned and its own") {
  auto tensor = HostTensor::allocate(DType::f32, {2, 3});
  REQUIRE(tensor);
  EXPECT(tensor->count() == 6);
  EXPECT(tensor->rank() == 2);
  EXPECT(tensor->bytes().size() == 24);
  EXPECT(reinterpret_cast<std::uintptr_t>(tensor->bytes().data()) % 64 == 0);
  for (const float value : tensor->values<float>()) EXPECT(value == 0);
  tensor->mutable_values<float>()[5] = 2.5F;
  EXPECT(tensor->as_double(5) == 2.5);
}

TEST_CASE("scalars and empty tensors are tensors") {
  EXPECT(HostTensor::allocate(DType::i64, {}).value().count() == 1);
  const HostTensor empty = HostTensor::allocate(DType::i64, {kMax, 0, kMax}).value();
  EXPECT(empty.count() == 0);
  EXPECT(empty.bytes().empty());
  EXPECT(empty.as_int64().empty());
  EXPECT(HostTensor().count() == 0);
  EXPECT(text_of(empty.shape()) == "[9223372036854775807, 0, 9223372036854775807]");
  EXPECT(text_of(StaticShape{}) == "[]");
}

TEST_CASE("sizes that make no sense are malformed, sizes too large are out of memory") {
  for (const StaticShape& shape :
       {StaticShape{-1}, StaticShape{0, -1}, StaticShape{kMax, 2}, StaticShape{kMax}}) {
    const auto tensor = HostTensor::allocate(DType::f64, shape);
    REQUIRE_FALSE(tensor);
    EXPECT(tensor.error().code == ErrorCode::malformed);
    EXPECT(tensor.error().message.find(text_of(shape)) != std::string::npos);
  }
  const std::int64_t huge = std::int64_t{1} << 59;
  const auto tensor = HostTensor::allocate(DType::f64, {huge});
  REQUIRE_FALSE(tensor);
  EXPECT(tensor.error().code == ErrorCode::out_of_memory);
  EXPECT(tensor.error().bytes == 8 * huge);
}

TEST_CASE("a view keeps its owner and is not written to") {
  const auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4});
  const std::weak_ptr<std::vector<float>> watch = owner;
  HostTensor view = HostTensor::view(DType::f32, {2, 2}, std::as_bytes(std::span(*owner)), owner);
  EXPECT(view.values<float>()[3] == 4);
  EXPECT(test::aborts([&view] { view.mutable_bytes(); }));
  EXPECT(test::aborts([&] { HostTensor::view(DType::f32, {3}, view.bytes(), nullptr); }));
  EXPECT(test::aborts([] { HostTensor::view(DType::f64, {std::int64_t{1} << 61}, {}, nullptr); }));
  EXPECT(watch.use_count() == 2);
}

TEST_CASE("copies and reshapes share the bytes") {
  HostTensor a = HostTensor::of<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor b = a;
  const HostTensor flat = a.reshaped({6});
  b.mutable_values<std::int32_t>()[0] = 9;
  EXPECT(a.values<std::int32_t>()[0] == 9);
  EXPECT(flat.values<std::int32_t>()[0] == 9);
  EXPECT(flat.shape() == StaticShape{6});
  EXPECT(test::aborts([&a] { (void)a.reshaped({5}); }));
  EXPECT(test::aborts([&a] { (void)a.reshaped({-6}); }));
}

TEST_CASE("a large tensor is zeros on a cache line's border too, and its own") {
  const StaticShape shape = {1 << 19};
  HostTensor tensor = HostTensor::allocate(DType::f32, shape).value();
  EXPECT(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % 64 == 0);
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  EXPECT(std::ranges::all_of(tensor.bytes(), is_zero));
  std::ranges::fill(tensor.mutable_values<float>(), 1.0F);
  const HostTensor kept = tensor;
  tensor = HostTensor::allocate(DType::f32, shape).value();
  EXPECT(std::ranges::all_of(tensor.bytes(), is_zero));
  EXPECT(kept.values<float>().back() == 1.0F);
}

TEST_CASE("elements of every dtype as double, of integers as int64") {
  EXPECT(HostTensor::of<Float16>({1}, {Float16(1.5)}).as_double(0) == 1.5);
  EXPECT(HostTensor::of<BFloat16>({1}, {BFloat16(-2)}).as_double(0) == -2);
  EXPECT(HostTensor::of<bool>({2}, {false, true}).as_double(1) == 1);
  EXPECT(HostTensor::of<std::uint64_t>({1}, {std::uint64_t{1} << 63}).as_double(0) == std::ldexp(1, 63));
  EXPECT(HostTensor::of<std::int8_t>({2}, {std::int8_t{-128}, std::int8_t{127}}).as_int64() ==
         std::vector<std::int64_t>{-128, 127});
  EXPECT(HostTensor::of<bool>({2}, {true, false}).as_int64() == std::vector<std::int64_t>{1, 0});
  const HostTensor floats = HostTensor::of<float>({1}, {1.0F});
  EXPECT(test::aborts([&floats] { (void)floats.as_int64(); }));
  EXPECT(test::aborts([&floats] { (void)floats.values<double>(); }));
  EXPECT(test::aborts([] { (void)HostTensor::of<float>({3}, {1.0F}); }));
}

TEST_CASE("same_bits compares dtype, shape and bits") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const HostTensor a = HostTensor::of<float>({2}, {nan, 0.0F});
  EXPECT(a.same_bits(HostTensor::of<float>({2}, {nan, 0.0F})));
  EXPECT_FALSE(a.same_bits(HostTensor::of<float>({2}, {nan, -0.0F})));
  EXPECT_FALSE(a.same_bits(a.reshaped({1, 2})));
  EXPECT_FALSE(HostTensor::of<std::int32_t>({1}, {0}).same_bits(HostTensor::of<float>({1}, {0.0F})));
}

}  // namespace
}  // namespace diji
