// The ONNX reader: a model file becomes a Graph of catalogue operators, with old operator versions
// normalised.
#pragma once

#include "base/error.h"
#include "base/host_tensor.h"
#include "graph/graph.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace diji {

struct ImportOptions {
  /// Symbolic sizes that become numbers: by the model's name for it, or "<input>.<axis>" where it has none.
  std::map<std::string, std::int64_t> fixed_dims;
  /// Graph inputs that become constants (also in place of an initializer's default). Their sizes fix the
  /// symbols they share with other inputs.
  std::map<std::string, HostTensor> constants;
  /// In place of defaults: for graph inputs that have an initializer of their name. Others are left alone.
  std::map<std::string, HostTensor> overrides;
  /// Operators of the user's (graph/custom_op.h), found by domain and name.
  std::vector<const OpDef*> custom_ops;
  /// Values of the model's graph that are given instead of computed, by name. A given input stays an input,
  /// whose tensor nobody reads.
  std::map<std::string, HostTensor> known;
  std::vector<std::string>
      only;                ///< the values to compute, in the place of the model's outputs; empty: those
  bool stretches = false;  ///< Graph::stretches of the graph
};

struct ImportedModel {
  Graph graph;
  std::map<std::string, std::string> metadata;
  /// XXH3-128 in hex of the file's bytes, followed by those of external tensor data where there are any.
  std::string digest;
  std::vector<std::string> external_files;  ///< that tensor data came from, below the model's folder
  std::string producer;                     ///< "pytorch 2.4.0"
  std::int64_t ir_version = 0;
  std::int64_t opset = 0;  ///< of ai.onnx; 0 when the model imports none
  /// Inputs with an initializer of their name: the default, or what ImportOptions::overrides has for it,
  /// became a constant and is no input of `graph`.
  std::vector<std::string> defaulted_inputs;
  /// Oddities that do not stop the import; they were logged too.
  std::vector<std::string> warnings;
};

/// A type of operator in a model file.
struct OperatorUse {
  std::string type;  ///< "Add", or "com.microsoft.FusedMatMul" outside the default domain
  std::int64_t count = 0;
  bool missing = false;
  std::string hint;  ///< of a missing one: the nearest known name, or the versions that are understood
  std::int64_t offset = -1;  ///< of the first node, or of the first that is missing
};

/// The operators that a file's nodes have, sorted by name, without importing it. Errors: those of read_onnx
/// that come before operators.
Result<std::vector<OperatorUse>> survey_onnx(const std::filesystem::path& path,
                                             std::span<const OpDef* const> custom_ops = {});

/// Operators that the importer resolves itself or builds bodies for, with the first operator set that has
/// them.
std::map<std::string, std::int64_t> importer_operators();

/// Inputs with an initializer of their name, which read_onnx takes from ImportOptions::overrides.
Result<std::vector<std::string>> defaulted_inputs_of(const std::filesystem::path& path);

/// Names of the outputs, as the file has them.
Result<std::vector<std::string>> output_names_of(const std::filesystem::path& path);

/// The graph's weights are views of the mapped file, which must not shrink while the graph lives. Errors name
/// file and byte: not_found and io, malformed (cut off, absurd, contradicting itself), unsupported (all
/// unknown operators at once; Error::deciding_values, when they were `known`, might let it be read), usage
/// (an option names what the model does not have), mismatch (an operator's operands, or constants).
Result<ImportedModel> read_onnx(const std::filesystem::path& path, const ImportOptions& options = {});

/// The same on bytes; `name` stands for the file in errors. External data is refused: there is no folder.
Result<ImportedModel> read_onnx_bytes(std::vector<std::byte> bytes, const std::string& name,
                                      const ImportOptions& options = {});

}  // namespace diji
