// TensorProto messages outside a model.
#include "formats/tensor_pb.h"

#include "base/files.h"
#include "formats/npy.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/schema.h"
#include "formats/onnx/tensor.h"
#include "formats/onnx/wire_writer.h"

#include <memory>
#include <utility>

namespace diji {
Result<NamedTensor> read_tensor_pb_bytes(std::vector<std::byte> bytes, const std::string& file) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  onnx::Source source{file, owner, {}};
  const onnx::TensorProto tensor = TRY(onnx::parse_tensor(Reader(*owner, file)));
  HostTensor value = TRY(onnx::tensor_value(tensor, source));
  return NamedTensor{std::string(tensor.name), std::move(value)};
}

Result<NamedTensor> read_tensor_pb(const std::filesystem::path& path) {
  std::vector<std::byte> bytes = TRY(read_file(path));
  return read_tensor_pb_bytes(std::move(bytes), path.string());
}

std::vector<std::byte> tensor_pb_bytes(const HostTensor& tensor, std::string_view name) {
  onnx::WireWriter writer;
  for (const std::int64_t size : tensor.shape()) {
    writer.integer(onnx::TensorFields::dims, static_cast<std::uint64_t>(size));
  }
  writer.integer(onnx::TensorFields::data_type,
                 static_cast<std::uint64_t>(onnx::data_type_of(tensor.dtype())));
  if (!name.empty()) writer.text(onnx::TensorFields::name, name);
  writer.bytes(onnx::TensorFields::raw_data, tensor.bytes());
  return writer.take();
}

Result<void> write_tensor_pb(const std::filesystem::path& path, const HostTensor& tensor,
                             std::string_view name) {
  const std::vector<std::byte> bytes = tensor_pb_bytes(tensor, name);
  return write_file_atomically(path, std::span<const std::byte>(bytes));
}

Result<HostTensor> read_tensor_file(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".npy") return read_npy(path);
  if (extension == ".pb") {
    NamedTensor named = TRY(read_tensor_pb(path));
    return std::move(named.tensor);
  }
  return fail(ErrorCode::usage, "'{}': a tensor is read from a file named .npy or .pb", path.string());
}

}  // namespace diji
