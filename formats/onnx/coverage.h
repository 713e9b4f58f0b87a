// Which operators a model needs, and which of them the catalogue does not have.
#pragma once

#include "formats/onnx/proto.h"
#include "graph/op_def.h"

#include <cstdint>
#include <map>
#include <string_view>

namespace diji::onnx {

/// Domain ("" for ai.onnx) to the version of its operator set.
using Opsets = std::map<std::string_view, std::int64_t>;

/// Errors: no version at all, a version below 1, two for one domain, an IR version or operator set of ai.onnx
/// that is too new.
Result<Opsets> read_opsets(const Model& model);

/// The record and the largest schema version it understands within the operator set.
struct Record {
  const OpDef* op = nullptr;  ///< null: the catalogue has no such operator
  std::int64_t version = 0;   ///< 0: none that is understood
};
Record find_record(const NodeProto& node, const Opsets& opsets);

/// `Constant` of the default domain, which the importer handles itself.
bool is_constant(const NodeProto& node);

/// All operators that cannot be imported in one error, with counts: unknown ones (those within subgraphs too)
/// with the nearest known name, functions of the model, versions that are not understood with those that are.
Result<void> refuse_unknown(const Model& model, const Opsets& opsets);

}  // namespace diji::onnx
