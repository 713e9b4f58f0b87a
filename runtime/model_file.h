// FILE.dji: a model compiled ahead of time, for devices of one kind.
#pragma once

#include "runtime/open_model.h"

#include <filesystem>

namespace diji {

constexpr std::string_view kModelFileSuffix = ".dji";

struct WrittenModel {
  OpenedModel model;
  std::uint64_t bytes = 0;  ///< of the file
  int referenced = 0;       ///< weights that stay in the model's file, which must stay beside this one
  int copied = 0;           ///< weights and constants in the file
};
/// Compiles the model, which the compile cache has then too, and writes it: the graph after the passes and
/// the text of its kernels, never machine code. Weights are references where the model lies in the file's
/// folder or below. Errors: those of open_model; a file that cannot be written; unsupported: operators of the
/// user's.
Result<WrittenModel> write_model_file(const std::filesystem::path& file, const std::filesystem::path& model,
                                      const SessionOptions& options, Device& device);

/// Errors: malformed; mismatch: weights that changed; unsupported: another version of diji, or a device whose
/// kernels are not of the kind that was compiled for.
Result<OpenedModel> open_model_file(const std::filesystem::path& file, Device& device);
/// The graph alone.
Result<Graph> read_model_file(const std::filesystem::path& file);

}  // namespace diji
