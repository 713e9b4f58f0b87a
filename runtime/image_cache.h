// Compiled models on disk: the second level of the compile cache.
#pragma once

#include "runtime/cache_folder.h"
#include "runtime/image.h"

#include <optional>
#include <string>

namespace diji {

struct SessionOptions;

/// What a compiled model follows from, whatever file it was read from: the model's digest, the options that
/// shape it, the device, its plugin, and this build of diji. Nothing where the options name what has no
/// identity (operators of the user's) or want the passes to run (a dump).
std::optional<Image::Origins> origins_of(const std::string& model_name, const std::string& digest,
                                         const SessionOptions& options, const Device& device, bool stretches);

/// Images by their origins. Thread-safe, as the folder is.
class ImageCache {
 public:
  /// Larger models are compiled from their file each time.
  static constexpr std::uint64_t kImageBytesMax = std::uint64_t{1} << 30;

  explicit ImageCache(CacheFolder& folder) : folder_(folder) {}
  /// A good image; a damaged one is a warning and a miss. Errors: out_of_memory.
  Result<std::optional<Image>> find(const Image::Origins& origins, ThreadPool& threads);
  /// Best effort, as all of the cache.
  void store(const Image& image);
  /// Which origin differs from the most similar image there is, as a sentence: "no compiled model of
  /// model.onnx", "model.onnx was compiled for another device: …".
  std::string why_missing(const Image::Origins& origins);

 private:
  CacheFolder& folder_;
};

}  // namespace diji
