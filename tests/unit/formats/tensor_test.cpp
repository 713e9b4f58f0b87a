// Every encoding of tensor data, and every way in which data does not fit its tensor.
#include "formats/onnx/tensor.h"

#include "tests/unit/formats/expect_error.h"
#include "tests/unit/formats/onnx_writer.h"

#include <memory>

namespace diji::test {
namespace {

using onnx::TensorFields;

Result<HostTensor> value_of(const Message& message) {
  const auto bytes = std::make_shared<const Bytes>(message.bytes());
  const auto tensor = onnx::parse_tensor(Reader(*bytes, "t"));
  if (!tensor) return std::unexpected(tensor.error());
  onnx::Source source{"t", bytes, {}};
  return onnx::tensor_value(*tensor, source);
}

Message typed(std::int64_t data_type, std::uint32_t field, std::initializer_list<std::int64_t> values) {
  Message tensor = tensor_head("t", data_type, {std::ssize(values)});
  for (const std::int64_t value : values) tensor.integer(field, value);
  return tensor;
}

template <typename T>
void expect_values(const Result<HostTensor>& tensor, std::initializer_list<T> values) {
  REQUIRE(tensor.has_value());
  EXPECT(tensor->same_bits(HostTensor::of<T>({std::ssize(values)}, values)));
}

template <typename T>
T half(std::uint16_t bits) {
  T value;
  value.bits = bits;
  return value;
}

TEST_CASE("raw data of every dtype is read in place or copied where it lies askew") {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string raw(static_cast<std::size_t>(6 * bytes_of(dtype)), '\x01');
    for (std::size_t shift = 0; shift < 8; ++shift) {  // the name moves the data
      const auto tensor =
          value_of(raw_tensor(std::string(shift, 'n'), onnx::data_type_of(dtype), {2, 3}, raw));
      REQUIRE(tensor.has_value());
      EXPECT(tensor->dtype() == dtype);
      EXPECT(tensor->shape() == StaticShape{2, 3});
      EXPECT(std::string_view(reinterpret_cast<const char*>(tensor->bytes().data()), raw.size()) == raw);
      EXPECT(reinterpret_cast<std::uintptr_t>(tensor->bytes().data()) %
                 static_cast<std::uintptr_t>(bytes_of(dtype)) ==
             0);
    }
  }
}

TEST_CASE("typed lists of every dtype") {
  expect_values<std::int32_t>(value_of(typed(6, TensorFields::int32_data, {1, -2, 0x7fffffff})),
                              {1, -2, 0x7fffffff});
  expect_values<std::int32_t>(value_of(typed(6, TensorFields::int32_data, {0xfffffffe})),
                              {-2});  // short negative
  expect_values<std::int16_t>(value_of(typed(5, TensorFields::int32_data, {-32768})), {-32768});
  expect_values<std::int8_t>(value_of(typed(3, TensorFields::int32_data, {-128, 127})), {-128, 127});
  expect_values<std::uint16_t>(value_of(typed(4, TensorFields::int32_data, {65535})), {65535});
  expect_values<std::uint8_t>(value_of(typed(2, TensorFields::int32_data, {0, 255})), {0, 255});
  expect_values<bool>(value_of(typed(9, TensorFields::int32_data, {0, 1})), {false, true});
  expect_values<Float16>(value_of(typed(10, TensorFields::int32_data, {0x3c00})), {half<Float16>(0x3c00)});
  expect_values<BFloat16>(value_of(typed(16, TensorFields::int32_data, {0x3f80})), {half<BFloat16>(0x3f80)});
  expect_values<std::int64_t>(value_of(typed(7, TensorFields::int64_data, {INT64_MIN, 5})), {INT64_MIN, 5});
  expect_values<std::uint64_t>(value_of(typed(13, TensorFields::uint64_data, {-1})), {UINT64_MAX});
  expect_values<std::uint32_t>(value_of(typed(12, TensorFields::uint64_data, {0xffffffff})), {UINT32_MAX});
  Message floats = tensor_head("t", 1, {3});
  floats.real(TensorFields::float_data, 1.5F).text(TensorFields::float_data, bytes_of_values({2.5F, -0.0F}));
  expect_values<float>(value_of(floats), {1.5F, 2.5F, -0.0F});
  Message doubles = tensor_head("t", 11, {2});
  doubles.text(TensorFields::double_data, bytes_of_values({0.1, 0.2}));
  expect_values<double>(value_of(doubles), {0.1, 0.2});
  Message packed = tensor_head("t", 6, {3});
  packed.text(TensorFields::int32_data, Message().varint(1).varint(300).text())
      .integer(TensorFields::int32_data, 7);
  expect_values<std::int32_t>(value_of(packed), {1, 300, 7});
}

TEST_CASE("scalars and empty tensors") {
  EXPECT(value_of(raw_tensor("t", kFloat, {}, bytes_of_values({2.0F})))->as_double(0) == 2.0);
  EXPECT(value_of(tensor_head("t", kFloat, {3, 0}))->shape() == StaticShape{3, 0});
  EXPECT(value_of(raw_tensor("t", kFloat, {0}, ""))->count() == 0);
  // A zero makes the product zero, however large the others are.
  EXPECT(value_of(tensor_head("t", kFloat, {INT64_MAX, INT64_MAX, 0}))->count() == 0);
}

TEST_CASE("values outside of the dtype are refused at their byte") {
  const auto refused = [](std::int64_t data_type, std::uint32_t field, std::int64_t value) {
    const auto tensor = value_of(typed(data_type, field, {1, value}));
    expect_error(tensor, ErrorCode::malformed, {"'t'", "element 1", "out of range"});
    EXPECT(tensor.error().offset == 9);  // dims, type and name have 7 bytes, the first element 2
  };
  refused(2, TensorFields::int32_data, 256);
  refused(2, TensorFields::int32_data, -1);
  refused(3, TensorFields::int32_data, 128);
  refused(5, TensorFields::int32_data, 40000);
  refused(6, TensorFields::int32_data, std::int64_t{1} << 32);
  refused(9, TensorFields::int32_data, 2);
  refused(10, TensorFields::int32_data, 65536);
  refused(16, TensorFields::int32_data, -1);
  refused(12, TensorFields::uint64_data, std::int64_t{1} << 32);
  expect_error(value_of(raw_tensor("t", 9, {2}, "\x01\x02")), ErrorCode::malformed,
               {"bool", "neither 0 nor 1"});
}

TEST_CASE("two kinds of data are refused") {
  Message both = float_tensor("w", {1}, {1});
  expect_error(value_of(Message(both).real(TensorFields::float_data, 1)), ErrorCode::malformed,
               {"'w'", "both raw and typed"});
  expect_error(value_of(Message(both).text(TensorFields::raw_data, "1234")), ErrorCode::malformed,
               {"raw_data twice"});
  expect_error(value_of(Message(both).integer(TensorFields::data_location, 1)), ErrorCode::malformed,
               {"both external and raw"});
  expect_error(value_of(typed(6, TensorFields::int32_data, {1}).integer(TensorFields::int64_data, 1)),
               ErrorCode::malformed, {"typed data of two kinds"});
  expect_error(value_of(typed(6, TensorFields::int32_data, {1}).integer(TensorFields::data_location, 1)),
               ErrorCode::malformed, {"both external and typed"});
  expect_error(value_of(typed(6, TensorFields::int64_data, {1})), ErrorCode::malformed,
               {"'t'", "typed data in field 7"});
}

TEST_CASE("data must have the size that the shape says") {
  expect_error(value_of(raw_tensor("w", kFloat, {3}, "12345678")), ErrorCode::malformed,
               {"'w'", "8 bytes", "[3] of f32 needs 12"});
  expect_error(value_of(raw_tensor("w", kFloat, {1}, "12345678")), ErrorCode::malformed,
               {"8 bytes", "needs 4"});
  expect_error(value_of(tensor_head("w", kFloat, {2})), ErrorCode::malformed, {"0 bytes", "needs 8"});
  expect_error(value_of(tensor_head("w", 6, {2}).integer(TensorFields::int32_data, 1)), ErrorCode::malformed,
               {"1 elements", "[2] has 2"});
  // Nothing is allocated for these: the data is not there.
  expect_error(value_of(raw_tensor("w", kFloat, {std::int64_t{1} << 40}, "1234")), ErrorCode::malformed,
               {"4 bytes"});
  expect_error(value_of(tensor_head("w", 6, {std::int64_t{1} << 50}).integer(TensorFields::int32_data, 1)),
               ErrorCode::malformed, {"1 elements"});
}

TEST_CASE("shapes that are none are refused") {
  for (const auto& dims : {std::initializer_list<std::int64_t>{-1}, {2, -3}, {INT64_MIN}, {0, -1}}) {
    expect_error(value_of(tensor_head("w", kFloat, dims)), ErrorCode::malformed,
                 {"'w'", "negative or too large"});
  }
  const std::int64_t big = std::int64_t{1} << 32;
  expect_error(value_of(tensor_head("w", kFloat, {big, big})), ErrorCode::malformed, {"too large"});  // 2^64
  expect_error(value_of(tensor_head("w", 11, {std::int64_t{1} << 60})), ErrorCode::malformed,
               {"too large"});  // 2^63 bytes
  Message many;
  for (int i = 0; i < 65; ++i) many.integer(TensorFields::dims, 1);
  expect_error(value_of(many), ErrorCode::malformed, {"more than 64 axes"});
}

TEST_CASE("packed elements are widened, the first from the lowest bits") {
  constexpr std::int64_t kUInt4 = 21, kInt4 = 22, kUInt2 = 25, kInt2 = 26;
  // 0x8f: 15 then 8; as signed -1 then -8. The unused half of the last byte may hold anything.
  const std::string_view bytes("\x8f\x70\xf3", 3);
  expect_values<std::uint8_t>(value_of(raw_tensor("t", kUInt4, {5}, bytes)), {15, 8, 0, 7, 3});
  expect_values<std::int8_t>(value_of(raw_tensor("t", kInt4, {5}, bytes)), {-1, -8, 0, 7, 3});
  expect_values<std::uint8_t>(value_of(raw_tensor("t", kUInt2, {5}, {"\xe4\x02", 2})), {0, 1, 2, 3, 2});
  expect_values<std::int8_t>(value_of(raw_tensor("t", kInt2, {5}, {"\xe4\x02", 2})), {0, 1, -2, -1, -2});
  Message packed = tensor_head("t", kInt4, {3});
  packed.integer(TensorFields::int32_data, 0x8f)
      .integer(TensorFields::int32_data, -2);  // 0xfe as a signed byte
  expect_values<std::int8_t>(value_of(packed), {-1, -8, -2});
  expect_values<std::int8_t>(value_of(tensor_head("t", kInt4, {0})), {});
}

TEST_CASE("packed elements that do not fit their shape") {
  expect_error(value_of(raw_tensor("w", 22, {5}, "ab")), ErrorCode::malformed,
               {"'w'", "2 bytes", "INT4", "needs 3"});
  expect_error(value_of(raw_tensor("w", 22, {2}, "ab")), ErrorCode::malformed, {"needs 1"});
  expect_error(value_of(tensor_head("w", 22, {std::int64_t{1} << 50})), ErrorCode::malformed, {"0 bytes"});
  expect_error(value_of(tensor_head("w", 22, {1}).integer(TensorFields::int32_data, 256)),
               ErrorCode::malformed, {"256 is no byte"});
  expect_error(value_of(tensor_head("w", 22, {1}).integer(TensorFields::int64_data, 1)), ErrorCode::malformed,
               {"field 7"});
}

TEST_CASE("types diji does not have are unsupported by name, unknown numbers malformed") {
  expect_error(value_of(tensor_head("w", 8, {1}).text(TensorFields::string_data, "x")),
               ErrorCode::unsupported, {"'w'", "STRING"});
  expect_error(value_of(tensor_head("w", 27, {1})), ErrorCode::unsupported, {"FLOAT6E2M3"});
  expect_error(value_of(tensor_head("w", 14, {1})), ErrorCode::unsupported, {"COMPLEX64"});
  expect_error(value_of(tensor_head("w", 0, {1})), ErrorCode::malformed, {"data type 0"});
  expect_error(value_of(tensor_head("w", 99, {1})), ErrorCode::malformed, {"data type 99"});
  expect_error(value_of(tensor_head("w", -1, {1})), ErrorCode::malformed, {"data type -1"});
  expect_error(value_of(tensor_head("w", 1, {1}).text(TensorFields::segment, "")), ErrorCode::malformed,
               {"segments"});
  expect_error(value_of(tensor_head("w", 1, {1}).integer(TensorFields::data_location, 2)),
               ErrorCode::malformed, {"data_location 2"});
}

}  // namespace
}  // namespace diji::test
