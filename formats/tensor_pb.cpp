// TensorProto messages outside a model.
#include "formats/tensor_pb.h"

#include "base/files.h"
#include "formats/npy.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/schema.h"
#include "formats/onnx/tensor.h"
#include "formats/onnx/wire.h"

#include <memory>
#include <utility>

namespace diji {
namespace {

class Writer {
 public:
  void integer(std::uint32_t field, std::uint64_t value) {
    tag(field, onnx::WireType::varint);
    varint(value);
  }
  void bytes(std::uint32_t field, std::span<const std::byte> data) {
    tag(field, onnx::WireType::bytes);
    varint(data.size());
    bytes_.insert(bytes_.end(), data.begin(), data.end());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void tag(std::uint32_t field, onnx::WireType type) {
    varint((field << 3) | static_cast<std::uint32_t>(type));
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>((value & 0x7f) | 0x80));
    bytes_.push_back(static_cast<std::byte>(value));
  }

  std::vector<std::byte> bytes_;
};

}  // namespace

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
  Writer writer;
  for (const std::int64_t size : tensor.shape()) {
    writer.integer(onnx::TensorFields::dims, static_cast<std::uint64_t>(size));
  }
  writer.integer(onnx::TensorFields::data_type,
                 static_cast<std::uint64_t>(onnx::data_type_of(tensor.dtype())));
  if (!name.empty()) writer.bytes(onnx::TensorFields::name, std::as_bytes(std::span(name)));
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
