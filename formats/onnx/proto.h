// A parsed ONNX model: the messages as structs whose names and data are views into the file, with byte
// offsets.
#pragma once

#include "base/error.h"
#include "base/reader.h"
#include "formats/onnx/schema.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace diji::onnx {

// Limits: far above what exporters write, low enough that a hostile file costs at most a small multiple of
// its size.
inline constexpr int kNestingMax = 32;  ///< graphs within attributes of nodes of graphs
inline constexpr std::size_t kNodesMax =
    1'000'000;  ///< of one graph; the same for its initializers and ports
inline constexpr std::size_t kOperandsMax = 65'536;         ///< inputs or outputs of a node
inline constexpr std::size_t kAttributesMax = 256;          ///< of a node or a function
inline constexpr std::size_t kAttributeItemsMax = 1 << 24;  ///< elements of a list attribute
inline constexpr std::size_t kDimsMax = 64;                 ///< rank of a tensor
inline constexpr std::size_t kNameBytesMax = 16'384;
inline constexpr std::size_t kTextBytesMax = 1 << 24;  ///< values of metadata and of text attributes
inline constexpr std::size_t kEntriesMax = 65'536;     ///< metadata, operator sets, functions
inline constexpr std::size_t kExternalEntriesMax =
    16;  ///< location, offset, length, checksum and what may come

struct StringEntry {
  std::string_view key, value;
  std::int64_t offset = 0;
};

struct TensorProto {
  std::string_view name;
  std::int64_t offset = 0;
  std::int32_t data_type = 0;
  std::vector<std::int64_t> dims;
  std::optional<Reader> raw;
  std::uint32_t typed_field = 0;  ///< the one …_data list that is not empty; 0: none
  std::uint64_t typed_count = 0;
  bool external = false;
  std::vector<StringEntry> external_data;
  Reader message;  ///< the whole tensor: typed data is decoded in a second pass, into its place
};

struct GraphProto;

struct AttributeProto {
  std::string_view name;
  std::int64_t offset = 0;
  AttributeType type = AttributeType::undefined;
  std::string_view reference;  ///< names the attribute of the function around it that this one stands for
  /// Nothing for the kinds that no operator of ours takes.
  std::variant<std::monostate, std::int64_t, double, std::string_view, std::vector<std::int64_t>,
               std::vector<double>, std::shared_ptr<const TensorProto>, std::shared_ptr<const GraphProto>,
               std::vector<std::shared_ptr<const GraphProto>>, std::vector<std::string_view>>
      value;
};

struct NodeProto {
  std::string_view name, op_type, domain, overload;
  std::int64_t offset = 0;
  std::vector<std::string_view> inputs, outputs;  ///< "" stands for an absent one
  std::vector<AttributeProto> attributes;
};

struct DimensionProto {
  std::optional<std::int64_t> value;
  std::string_view param;
};

/// The kind of an optional whose element is a tensor.
inline constexpr std::string_view kOptionalTensor = "optional tensor";

struct ValueInfoProto {
  std::string_view name;
  std::int64_t offset = 0;
  std::string_view kind;  ///< "tensor", "sequence", kOptionalTensor, …; "" without a type
  std::int32_t data_type = 0;
  std::optional<std::vector<DimensionProto>> dims;
};

struct GraphProto {
  std::string_view name;
  std::int64_t offset = 0;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<ValueInfoProto> inputs, outputs;
  bool sparse_initializers = false;
};

struct OperatorSetId {
  std::string_view domain;
  std::int64_t version = 0;
  std::int64_t offset = 0;
};

struct FunctionProto {
  std::string_view domain, name, overload;
  GraphProto body;                           ///< its inputs and outputs have names and no types
  std::vector<std::string_view> attributes;  ///< those without a default
  std::vector<AttributeProto> defaults;
  std::vector<OperatorSetId> opsets;  ///< decide the versions of its nodes
};

struct Model {
  std::string_view file;
  std::int64_t ir_version = 0;
  std::string_view producer_name, producer_version;
  GraphProto graph;
  std::vector<OperatorSetId> opsets;
  std::vector<StringEntry> metadata;
  std::vector<FunctionProto> functions;
};

/// The graphs among a node's attributes.
template <typename Visitor>
void for_each_graph(const NodeProto& node, const Visitor& visit) {
  using Shared = std::shared_ptr<const GraphProto>;
  for (const AttributeProto& attribute : node.attributes) {
    if (const auto* one = std::get_if<Shared>(&attribute.value)) visit(**one);
    if (const auto* many = std::get_if<std::vector<Shared>>(&attribute.value)) {
      for (const Shared& graph : *many) visit(*graph);
    }
  }
}

/// Errors: malformed with the byte, for everything the wire format or the limits above do not allow. `file`
/// names the bytes in errors and must outlive the model, as the bytes must.
Result<Model> parse_model(std::span<const std::byte> bytes, std::string_view file);
Result<TensorProto> parse_tensor(Reader message);

/// An error at a byte of a file.
template <typename... Args>
[[nodiscard]] std::unexpected<Error> fail_at(ErrorCode code, std::string_view file, std::int64_t offset,
                                             fmt::format_string<Args...> text, Args&&... args) {
  auto error = Reader({}, file).malformed_at(offset, fmt::format(text, std::forward<Args>(args)...));
  error.error().code = code;
  return error;
}

}  // namespace diji::onnx
