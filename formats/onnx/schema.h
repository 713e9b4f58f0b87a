// The ONNX schema in one table: field numbers of its messages (onnx.proto, IR version 14) and its data types.
#pragma once

#include "base/dtype.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace diji::onnx {

struct ModelFields {
  enum : std::uint32_t {
    ir_version = 1,
    producer_name = 2,
    producer_version = 3,
    graph = 7,
    opset_import = 8,
    metadata_props = 14,
    functions = 25,
  };
};
struct OperatorSetIdFields {
  enum : std::uint32_t { domain = 1, version = 2 };
};
struct StringStringEntryFields {
  enum : std::uint32_t { key = 1, value = 2 };
};
struct FunctionFields {
  enum : std::uint32_t {
    name = 1,
    input = 4,
    output = 5,
    attribute = 6,
    node = 7,
    opset_import = 9,
    domain = 10,
    attribute_proto = 11,
    overload = 13,
  };
};
struct GraphFields {
  enum : std::uint32_t {
    node = 1,
    name = 2,
    initializer = 5,
    input = 11,
    output = 12,
    sparse_initializer = 15
  };
};
struct NodeFields {
  enum : std::uint32_t {
    input = 1,
    output = 2,
    name = 3,
    op_type = 4,
    attribute = 5,
    domain = 7,
    overload = 8
  };
};
struct AttributeFields {
  enum : std::uint32_t {
    name = 1,
    f = 2,
    i = 3,
    s = 4,
    t = 5,
    g = 6,
    floats = 7,
    ints = 8,
    strings = 9,
    tensors = 10,
    graphs = 11,
    tp = 14,
    type_protos = 15,
    type = 20,
    ref_attr_name = 21,
    sparse_tensor = 22,
    sparse_tensors = 23,
  };
};
struct TensorFields {
  enum : std::uint32_t {
    dims = 1,
    data_type = 2,
    segment = 3,
    float_data = 4,
    int32_data = 5,
    string_data = 6,
    int64_data = 7,
    name = 8,
    raw_data = 9,
    double_data = 10,
    uint64_data = 11,
    external_data = 13,
    data_location = 14,
  };
};
struct ValueInfoFields {
  enum : std::uint32_t { name = 1, type = 2 };
};
struct TypeFields {
  enum : std::uint32_t {
    tensor_type = 1,
    sequence_type = 4,
    map_type = 5,
    opaque_type = 7,
    sparse_tensor_type = 8,
    optional_type = 9,
  };
};
struct OptionalTypeFields {
  enum : std::uint32_t { elem_type = 1 };
};
struct TensorTypeFields {
  enum : std::uint32_t { elem_type = 1, shape = 2 };
};
struct TensorShapeFields {
  enum : std::uint32_t { dim = 1 };
};
struct DimensionFields {
  enum : std::uint32_t { dim_value = 1, dim_param = 2 };
};

/// AttributeProto.AttributeType.
enum class AttributeType : std::uint8_t {
  undefined,
  real,
  integer,
  string,
  tensor,
  graph,
  reals,
  integers,
  strings,
  tensors,
  graphs,
  sparse_tensor,
  sparse_tensors,
  type,
  types,
};
inline constexpr std::array<std::string_view, 15> kAttributeTypeNames = {
    "UNDEFINED", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
    "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};

/// TensorProto.DataType; a row's place is its number. `typed_field` is the list that holds elements when
/// raw_data does not.
struct DataType {
  std::string_view name;
  std::optional<DType> dtype;  ///< nothing: diji has no such tensors
  std::uint32_t typed_field = 0;
  /// Of an element that has no dtype of its own; several of less than 8 share a byte in files, the first in
  /// its lowest bits.
  int packed_bits = 0;
  DType widened = DType::boolean;  ///< what such elements become: a byte each
  std::string_view minifloat =
      {};  ///< the bytes are codes of this format (see the operator minifloat_decode)
};
inline constexpr std::array<DataType, 29> kDataTypes = {{
    {"UNDEFINED", std::nullopt},
    {"FLOAT", DType::f32, TensorFields::float_data},
    {"UINT8", DType::u8, TensorFields::int32_data},
    {"INT8", DType::i8, TensorFields::int32_data},
    {"UINT16", DType::u16, TensorFields::int32_data},
    {"INT16", DType::i16, TensorFields::int32_data},
    {"INT32", DType::i32, TensorFields::int32_data},
    {"INT64", DType::i64, TensorFields::int64_data},
    {"STRING", std::nullopt},
    {"BOOL", DType::boolean, TensorFields::int32_data},
    {"FLOAT16", DType::f16, TensorFields::int32_data},
    {"DOUBLE", DType::f64, TensorFields::double_data},
    {"UINT32", DType::u32, TensorFields::uint64_data},
    {"UINT64", DType::u64, TensorFields::uint64_data},
    {"COMPLEX64", std::nullopt},
    {"COMPLEX128", std::nullopt},
    {"BFLOAT16", DType::bf16, TensorFields::int32_data},
    {"FLOAT8E4M3FN", std::nullopt, TensorFields::int32_data, 8, DType::u8, "e4m3fn"},
    {"FLOAT8E4M3FNUZ", std::nullopt, TensorFields::int32_data, 8, DType::u8, "e4m3fnuz"},
    {"FLOAT8E5M2", std::nullopt, TensorFields::int32_data, 8, DType::u8, "e5m2"},
    {"FLOAT8E5M2FNUZ", std::nullopt, TensorFields::int32_data, 8, DType::u8, "e5m2fnuz"},
    {"UINT4", std::nullopt, TensorFields::int32_data, 4, DType::u8},
    {"INT4", std::nullopt, TensorFields::int32_data, 4, DType::i8},
    {"FLOAT4E2M1", std::nullopt, TensorFields::int32_data, 4, DType::u8, "e2m1"},
    {"FLOAT8E8M0", std::nullopt, TensorFields::int32_data, 8, DType::u8, "e8m0"},
    {"UINT2", std::nullopt, TensorFields::int32_data, 2, DType::u8},
    {"INT2", std::nullopt, TensorFields::int32_data, 2, DType::i8},
    {"FLOAT6E2M3", std::nullopt},
    {"FLOAT6E3M2", std::nullopt},
}};

/// The number ONNX gives a dtype.
constexpr std::int32_t data_type_of(DType dtype) {
  for (std::size_t i = 0; i < kDataTypes.size(); ++i) {
    if (kDataTypes[i].dtype == dtype) return static_cast<std::int32_t>(i);
  }
  return 0;
}

/// TensorProto.DataLocation.
inline constexpr std::int64_t kDataInModel = 0;
inline constexpr std::int64_t kDataExternal = 1;

/// The newest that this reader was written against. ONNX asks to support a version or to refuse the model.
inline constexpr std::int64_t kIrVersionMax = 14;
inline constexpr std::int64_t kOpsetKnownMax = 28;
/// Models before this IR version have no opset_import and mean version 1.
inline constexpr std::int64_t kIrVersionWithOpsets = 3;

}  // namespace diji::onnx
