// Tensor data in files beside the model: opened so that a model can reach nothing but plain files below its
// folder.
#pragma once

#include "base/error.h"
#include "formats/onnx/proto.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace diji::onnx {

/// The bytes of one tensor and what keeps them.
struct ExternalBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Maps each file once. Without a folder (a model in memory) every request is refused.
class ExternalFiles {
 public:
  ExternalFiles() = default;
  explicit ExternalFiles(std::filesystem::path folder) : folder_(std::move(folder)), has_folder_(true) {}

  /// The range that `tensor` names. Errors (of `file`, at the tensor): a location that is empty, absolute or
  /// leads out of the folder, a link or anything else that is not a plain file with one name, a range that
  /// the file does not have.
  Result<ExternalBytes> bytes(const TensorProto& tensor, std::string_view file, std::uint64_t bytes_wanted);

  /// All bytes that were asked for, in order: they are part of the model's identity.
  const std::vector<std::span<const std::byte>>& used() const { return used_; }
  /// The files that they lie in, below the folder.
  std::vector<std::string> files() const;

 private:
  struct Mapping;
  Result<std::shared_ptr<const Mapping>> map(const TensorProto& tensor, std::string_view file,
                                             const std::string& location);

  std::filesystem::path folder_;
  bool has_folder_ = false;
  std::map<std::string, std::shared_ptr<const Mapping>> mappings_;
  std::vector<std::span<const std::byte>> used_;
};

}  // namespace diji::onnx
