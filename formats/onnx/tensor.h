// From a parsed TensorProto to a HostTensor: a view of the file where its bytes allow it.
#pragma once

#include "base/host_tensor.h"
#include "formats/onnx/external_data.h"
#include "formats/onnx/proto.h"

#include <map>
#include <memory>
#include <string_view>

namespace diji::onnx {

/// Where a model's tensors lie.
struct Source {
  std::string_view file;              ///< as errors name it
  std::shared_ptr<const void> owner;  ///< of the bytes that were parsed
  ExternalFiles external;
  /// What had to be decoded, so that a body that is imported many times decodes once.
  std::map<const TensorProto*, HostTensor> decoded = {};
  bool mapped = false;  ///< the bytes that were parsed are a mapped file's
};

/// The data type's number when its elements have no dtype of their own (INT4, FLOAT8E4M3FN), else 0.
std::int32_t packed_type(std::int64_t number);
/// What holds elements of a data type: i8 or u8 where they have no dtype of their own. Errors: as
/// dtype_of_number.
Result<DType> storage_of_number(std::int64_t number, std::string_view what, std::string_view file,
                                std::int64_t offset);

/// Elements without a dtype of their own come in a byte each. Errors: malformed (no
/// valid size, data that does not fit the shape, two kinds of data, values out of range), unsupported (a data
/// type without DType, by name). Nothing is allocated before the data is known to be there.
Result<HostTensor> tensor_value(const TensorProto& tensor, Source& source);

/// The dtype of an ONNX number, or the error that names it: "'x' has data type STRING, …".
Result<DType> dtype_of_number(std::int64_t number, std::string_view what, std::string_view file,
                              std::int64_t offset);

/// The storage of a bool is 0 or 1 (reading anything else as a bool is undefined); true when all bytes are.
bool all_bools(std::span<const std::byte> bytes);

}  // namespace diji::onnx
