// TensorProto files: written and read back in every dtype, and the choice by extension.
#include "formats/tensor_pb.h"

#include "formats/npy.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/formats/expect_error.h"
#include "tests/unit/formats/onnx_writer.h"

namespace diji::test {
namespace {

TEST_CASE("every dtype makes the round trip with its name") {
  const ScratchFolder folder;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const StaticShape& shape : {StaticShape{}, {3}, {2, 0}, {2, 300}}) {
      HostTensor tensor = HostTensor::allocate(dtype, shape).value();
      for (std::size_t k = 0; k < tensor.bytes().size(); ++k) {
        tensor.mutable_bytes()[k] = static_cast<std::byte>(dtype == DType::boolean ? k % 2 : k * 7);
      }
      const auto path = folder.path() / "t.pb";
      REQUIRE(write_tensor_pb(path, tensor, "größe").has_value());
      const auto read = read_tensor_pb(path);
      REQUIRE(read.has_value());
      EXPECT(read->name == "größe");
      EXPECT(read->tensor.same_bits(tensor));
      EXPECT(read_tensor_file(path)->same_bits(tensor));
    }
  }
  EXPECT(read_tensor_pb_bytes(tensor_pb_bytes(HostTensor::of<float>({1}, {2}), ""), "t")->name.empty());
}

TEST_CASE("the extension decides") {
  const ScratchFolder folder;
  const HostTensor tensor = HostTensor::of<float>({2}, {1, 2});
  REQUIRE(write_npy(folder.path() / "t.npy", tensor).has_value());
  EXPECT(read_tensor_file(folder.path() / "t.npy")->same_bits(tensor));
  expect_error(read_tensor_file(folder.path() / "t.txt"), ErrorCode::usage, {"t.txt", ".npy or .pb"});
  expect_error(read_tensor_file(folder.path() / "none.pb"), ErrorCode::not_found, {"none.pb"});
}

TEST_CASE("broken files") {
  const auto read = [](const Message& message) { return read_tensor_pb_bytes(message.bytes(), "t.pb"); };
  expect_error(read(Message()), ErrorCode::malformed, {"t.pb", "data type 0"});
  expect_error(read(raw_tensor("w", kFloat, {2}, "1234")), ErrorCode::malformed,
               {"t.pb: byte 0", "'w'", "4 bytes"});
  expect_error(read(Message().raw("\x08")), ErrorCode::malformed, {"t.pb: byte 1"});
  Message external = tensor_head("w", kFloat, {1});
  external.integer(onnx::TensorFields::data_location, 1);
  external.message(onnx::TensorFields::external_data, Message().text(1, "location").text(2, "weights.bin"));
  expect_error(read(external), ErrorCode::malformed, {"no folder"});
}

}  // namespace
}  // namespace diji::test
