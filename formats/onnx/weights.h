// Where a model file keeps its weights, for whoever names them instead of copying them.
#pragma once

#include "base/error.h"
#include "formats/onnx/external_data.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace diji {

/// The data of one initializer.
struct WeightBytes {
  std::string file;  ///< below the model's folder
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  ///< of the bytes
};

/// Those of the model's own graph that stand in a file byte by byte. Errors: as read_onnx, of the file.
Result<std::vector<WeightBytes>> weights_of(const std::filesystem::path& model);

/// A range of a file below the folder of `files`, opened as external data is (plain files, no links, no way
/// out). `asker` is the file that errors name.
Result<WeightBytes> read_weight(onnx::ExternalFiles& files, const std::string& file, std::uint64_t offset,
                                std::uint64_t bytes, const std::string& asker);

}  // namespace diji
