// What tells models apart, without reading them again.
#pragma once

#include "runtime/cache_folder.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace diji {

/// The digests of model files that were read before, by what the system says of the files (device, number,
/// size, times of change): a file whose status is the same has the same bytes. Files that changed less than
/// `settled_seconds` ago are not remembered, since a clock may be coarser than the next change.
class ModelIdentity {
 public:
  /// Looks at the files now: before they are read.
  ModelIdentity(CacheFolder& folder, const std::filesystem::path& model, int settled_seconds = 2);
  /// The digest from an earlier remember(), where no file has changed since.
  std::optional<std::string> known();
  /// After the model was read; `external` are its other files, beside it. Nothing is kept where one changed
  /// since this object was made.
  void remember(const std::string& digest, const std::vector<std::string>& external);

 private:
  CacheFolder& folder_;
  std::filesystem::path model_;
  int settled_seconds_;
  std::string name_;    ///< of the cache file
  std::string before_;  ///< the model's status when this object was made
};

}  // namespace diji
