// Which operators a model needs, and which of them the catalogue does not have.
#pragma once

#include "formats/onnx/import.h"
#include "formats/onnx/proto.h"
#include "graph/op_def.h"

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace diji::onnx {

/// Domain ("" for ai.onnx) to the version of its operator set.
using Opsets = std::map<std::string_view, std::int64_t>;

/// Errors: no version at all, a version below 1, two for one domain, an IR version or operator set of ai.onnx
/// that is too new.
Result<Opsets> read_opsets(const Model& model);
/// Those that decide the versions of a function's nodes.
Result<Opsets> read_opsets(const FunctionProto& function, std::string_view file);

/// The record and the largest schema version it understands within the operator set.
struct Record {
  const OpDef* op = nullptr;  ///< null: the catalogue has no such operator
  std::int64_t version = 0;   ///< 0: none that is understood
};
Record find_record(const NodeProto& node, const Opsets& opsets, std::span<const OpDef* const> custom_ops);

class FunctionTable;

/// Each type of operator that the model's nodes have, within subgraphs and the bodies of functions that are
/// called too. Errors (malformed): a domain without an operator set, functions that call themselves.
Result<std::vector<OperatorUse>> survey(const Model& model, const Opsets& opsets,
                                        const FunctionTable& functions,
                                        std::span<const OpDef* const> custom_ops);

/// All operators that cannot be imported in one error, with counts: unknown ones with the nearest known name,
/// versions that are not understood with those that are.
Result<void> refuse_missing(const std::vector<OperatorUse>& uses, std::string_view file);

}  // namespace diji::onnx
