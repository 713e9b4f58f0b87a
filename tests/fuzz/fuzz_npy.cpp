// libFuzzer target: any bytes as a .npy file or a TensorProto give an error or a tensor that is written and
// read back.
#include "base/check.h"
#include "formats/npy.h"
#include "formats/tensor_pb.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto array = diji::read_npy_bytes({bytes.begin(), bytes.end()}, "fuzz.npy")) {
    const auto again = diji::read_npy_bytes(diji::npy_bytes(*array).value(), "again.npy");
    CHECK(again && again->same_bits(*array), "an array survives the round trip");
  }
  if (const auto read = diji::read_tensor_pb_bytes({bytes.begin(), bytes.end()}, "fuzz.pb")) {
    const auto again =
        diji::read_tensor_pb_bytes(diji::tensor_pb_bytes(read->tensor, read->name), "again.pb");
    CHECK(again && again->tensor.same_bits(read->tensor), "a tensor survives the round trip");
  }
  return 0;
}
