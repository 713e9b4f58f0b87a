// libFuzzer target: any bytes as an ONNX model give an error or a graph that keeps the rules.
#include "base/check.h"
#include "base/log.h"
#include "formats/onnx/import.h"
#include "graph/verify.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  diji::set_log_level(diji::LogLevel::error);
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto model = diji::read_onnx_bytes({bytes.begin(), bytes.end()}, "fuzz.onnx");
  if (model) CHECK(diji::verify(model->graph).has_value(), "an imported graph keeps the rules");
  return 0;
}
