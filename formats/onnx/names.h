// Names from a model file in sentences: cut to a readable length, with the nearest valid one beside a wrong
// one.
#pragma once

#include "formats/onnx/proto.h"

#include <span>
#include <string>
#include <string_view>

namespace diji::onnx {

/// At most 100 bytes of it.
std::string shown(std::string_view name);

/// "; the nearest is 'x'", or nothing. Looks at a bounded number of candidates: the search is quadratic in
/// lengths.
std::string nearest_hint(std::string_view name, std::span<const std::string> candidates);

/// "node 'conv1' (Conv)"; a node without a name is known by its first output.
std::string title_of(const NodeProto& node);

/// "Add", or "com.microsoft.FusedMatMul" outside the default domain.
std::string type_of(const NodeProto& node);

/// "" is the default domain's other name.
inline std::string_view domain_of(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

/// The error with file, byte and node, in its sentence and its fields.
std::unexpected<Error> at_node(std::string_view file, const NodeProto& node, Error error);

}  // namespace diji::onnx
