// A model file to an executable: from the compile cache where it was compiled before, else through the
// passes.
#pragma once

#include "formats/onnx/import.h"
#include "runtime/compiler.h"
#include "runtime/coverage.h"
#include "runtime/model_identity.h"
#include "runtime/session.h"

#include <filesystem>
#include <string>
#include <vector>

namespace diji {

struct OpenedModel {
  std::shared_ptr<const Executable> executable;
  Coverage coverage;
  std::string digest;  ///< of the file's bytes
  std::string miss;    ///< why the cache did not have it; empty when it did
};

Result<ImportedModel> import_model(const std::filesystem::path& path, const SessionOptions& options,
                                   bool stretches);

/// A compilation with all that a file of it needs.
struct CompiledModel {
  OpenedModel model;
  CompiledParts parts;
  std::vector<std::string> warnings;  ///< of the import
};
/// Through the passes, whatever the cache has; it has the model then too, unless sizes are fixed in it.
/// Errors: as open_model.
Result<CompiledModel> compile_model(const std::filesystem::path& path, const SessionOptions& options,
                                    Device& device);

/// Errors: those of read_onnx and of compile().
Result<OpenedModel> open_model(const std::filesystem::path& path, const SessionOptions& options,
                               Device& device, bool stretches);

}  // namespace diji
