// Attributes of a node as the operator's record wants them.
#pragma once

#include "formats/onnx/proto.h"
#include "formats/onnx/tensor.h"
#include "graph/op_def.h"

namespace diji::onnx {

/// Attributes the record knows come in its kinds (a dtype from ONNX's number); others, which an older version
/// of the operator had, come as they are (INTS as Ints), for the record's adapt() to move. Errors name node
/// and attribute.
Result<Attributes> read_attributes(const NodeProto& node, const OpDef& op, Source& source);

/// After adapt(): an attribute that the record still does not know is refused, with the nearest that it does.
Result<void> check_known(const NodeProto& node, const OpDef& op, const Attributes& attributes,
                         std::string_view file);

/// The value of a `Constant` node.
Result<HostTensor> constant_value(const NodeProto& node, Source& source);

}  // namespace diji::onnx
