// Tensors as files of their own: ONNX TensorProto (.pb, every dtype), and the choice of a format by
// extension.
#pragma once

#include "base/error.h"
#include "base/host_tensor.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace diji {

struct NamedTensor {
  std::string name;  ///< may be empty
  HostTensor tensor;
};

/// Errors: those of reading a file, malformed with the byte, unsupported data types by name. External data is
/// refused.
Result<NamedTensor> read_tensor_pb(const std::filesystem::path& path);
/// The same on bytes, which the tensor keeps; `file` stands for the file in errors.
Result<NamedTensor> read_tensor_pb_bytes(std::vector<std::byte> bytes, const std::string& file);

/// As raw_data, whole or not at all.
Result<void> write_tensor_pb(const std::filesystem::path& path, const HostTensor& tensor,
                             std::string_view name);
std::vector<std::byte> tensor_pb_bytes(const HostTensor& tensor, std::string_view name);

/// `.npy` or `.pb`. Error: usage for another extension.
Result<HostTensor> read_tensor_file(const std::filesystem::path& path);

}  // namespace diji
