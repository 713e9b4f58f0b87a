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
#include <string>
#include <vector>

namespace diji {

struct ImportOptions {
  /// Symbolic sizes that become numbers: by the model's name for it, or "<input>.<axis>" where it has none.
  std::map<std::string, std::int64_t> fixed_dims;
  /// Graph inputs that become constants (also in place of an initializer's default). Their sizes fix the
  /// symbols they share with other inputs.
  std::map<std::string, HostTensor> constants;
};

struct ImportedModel {
  Graph graph;
  std::map<std::string, std::string> metadata;
  /// XXH3-128 in hex of the file's bytes, followed by those of external tensor data where there are any.
  std::string digest;
  std::string producer;  ///< "pytorch 2.4.0"
  std::int64_t ir_version = 0;
  std::int64_t opset = 0;  ///< of ai.onnx; 0 when the model imports none
  /// Inputs with an initializer of their name: such a default became a constant and is no input of `graph`.
  /// Feeding one at run time is not built yet, and the caller says so.
  std::vector<std::string> defaulted_inputs;
  /// Oddities that do not stop the import; they were logged too.
  std::vector<std::string> warnings;
};

/// The graph's weights are views of the mapped file, which must not shrink while the graph lives. Errors name
/// file and byte: not_found and io, malformed (cut off, absurd, contradicting itself), unsupported (all
/// unknown operators at once), usage (an option names what the model does not have), mismatch (an operator's
/// operands, or constants).
Result<ImportedModel> read_onnx(const std::filesystem::path& path, const ImportOptions& options = {});

/// The same on bytes; `name` stands for the file in errors. External data is refused: there is no folder.
Result<ImportedModel> read_onnx_bytes(std::vector<std::byte> bytes, const std::string& name,
                                      const ImportOptions& options = {});

}  // namespace diji
