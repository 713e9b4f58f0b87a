// Operators that the importer resolves itself, because they are nothing at run time or hold graphs:
// constants, sequences, optionals, control flow.
#pragma once

#include "formats/onnx/nodes.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/scope.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace diji::onnx {

/// A node that is being imported.
struct Site {
  NodeImporter& importer;
  const NodeProto& node;
  Scope& scope;
  ImportedList inputs;

  Builder& builder() const { return scope.body.builder; }
  bool has_input(std::size_t i) const;
  /// Errors: absent, no tensor.
  Result<Tensor> tensor(std::size_t i, std::string_view what) const;
  /// Absent stays absent.
  Result<Tensor> optional_tensor(std::size_t i, std::string_view what) const;
  /// A tensor that is no widened constant of packed elements.
  Result<ValueId> plain(std::size_t i, std::string_view what) const;
  Result<Sequence> sequence(std::size_t i, std::string_view what) const;
  /// A number that is known at import. Errors: unsupported when it is not.
  Result<std::int64_t> known_integer(std::size_t i, std::string_view what) const;

  // Attributes. Errors: malformed (another type).
  Result<std::int64_t> integer(std::string_view name, std::int64_t otherwise) const;
  Result<std::vector<std::int64_t>> integers(std::string_view name) const;  ///< empty when it is not there
  Result<const GraphProto*> graph(std::string_view name) const;
  const AttributeProto* attribute(std::string_view name) const;
};

struct SpecialOp {
  std::string_view type;
  /// Errors without a place get the node's.
  Result<ImportedList> (*import)(Site& site) = nullptr;  ///< null: add_conditional does it
  std::span<const std::string_view> attributes;          ///< known names
  std::int64_t since = 1;                                ///< the operator set that has it first
};

/// Of the default domain; null for every other operator.
const SpecialOp* find_special(const NodeProto& node);
std::span<const SpecialOp> sequence_ops();
std::span<const SpecialOp> loop_ops();

/// "input 'q' is INT4": such constants are widened, and arithmetic of their own width is not built.
std::unexpected<Error> refuse_packed(std::int32_t packed, std::string_view what);

std::vector<SpecialOp> special_ops();

}  // namespace diji::onnx
