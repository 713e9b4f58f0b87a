// Keys of images, and what a miss is explained by.
#include "runtime/image_cache.h"

#include "base/checksum.h"
#include "base/log.h"
#include "runtime/build_id.h"
#include "runtime/session.h"

#include <algorithm>

namespace diji {
namespace {

std::string file_of(const Image::Origins& origins) {
  std::string all;
  for (const auto& [name, origin] : origins) {
    // The same bytes under another name are the same model.
    if (name != "model") all += fmt::format("{}={}:{}\n", name, origin.size(), origin);
  }
  return digest_of(all) + std::string(Image::kSuffix);
}

void append(std::string& text, std::string_view kind, const std::map<std::string, HostTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = tensor.bytes();
    text += fmt::format("{} {}={}{} {}; ", kind, name, name_of(tensor.dtype()), text_of(tensor.shape()),
                        digest_of(std::span(&bytes, 1)));
  }
}

std::string text_of_options(const SessionOptions& options, bool stretches) {
  std::string text;
  for (const auto& [name, size] : options.fixed_dims) text += fmt::format("size {}={}; ", name, size);
  append(text, "constant", options.constants);
  append(text, "default", options.overrides);
  append(text, "known", options.known);
  for (const std::string& name : options.only) text += fmt::format("only {}; ", name);
  for (const std::string& rule : options.passes.disabled_rules) text += fmt::format("without {}; ", rule);
  return text + (stretches ? "stretches" : "");
}

}  // namespace

std::optional<Image::Origins> origins_of(const std::string& model_name, const std::string& digest,
                                         const SessionOptions& options, const Device& device,
                                         bool stretches) {
  static const std::string kBuild = build_id();
  const PassOptions& passes = options.passes;
  // What looks at the passes, or tries something with them, wants them to run.
  const bool tries = !passes.dump_after.empty() || passes.verify_each || passes.uses != nullptr ||
                     !passes.more_rules.empty() || passes.fusion_steps_max != kFusionStepsMax;
  if (!options.custom_ops.empty() || tries || kBuild.empty()) return std::nullopt;
  return Image::Origins{
      {"model", model_name},
      {"digest", digest},
      {"options", text_of_options(options, stretches)},
      {"device", device.info().fingerprint},
      {"plugin", fmt::format("{} {}", device.plugin().name(), device.plugin().build_id())},
      {"diji", fmt::format("{} {}", DIJI_VERSION, kBuild)},
  };
}

Result<std::optional<Image>> ImageCache::find(const Image::Origins& origins, ThreadPool& threads) {
  const std::string name = file_of(origins);
  const auto file = folder_.open(name);
  if (file == nullptr) return std::nullopt;
  auto image = [&]() -> Result<Image> {
    Image parsed = TRY(Image::parse(file));
    TRY(parsed.check_constants(&threads));
    return parsed;
  }();
  if (!image) {
    if (image.error().code == ErrorCode::out_of_memory) return std::unexpected(std::move(image).error());
    warn("{}: {}; the model is compiled again", file->path(), image.error().message);
    return std::nullopt;
  }
  // A file under another's name would be another model's answer.
  if (file_of(image->origins) != name) {
    warn("{}: the compiled model of another key; it is compiled again", file->path());
    return std::nullopt;
  }
  folder_.touch(name);
  return *std::move(image);
}

void ImageCache::store(const Image& image) {
  if (!folder_.usable()) return;
  const Image::Bytes bytes = image.bytes();
  if (bytes.count > kImageBytesMax) return;
  folder_.write(file_of(image.origins), bytes.pieces);
  folder_.keep_within_limit();
}

std::string ImageCache::why_missing(const Image::Origins& origins) {
  const std::string& model = origins.front().second;
  std::size_t fewest = origins.size();
  std::string sentence = fmt::format("no compiled model of {}", model);
  const auto files = folder_.files();
  if (!files) return files.error().message;
  for (const CacheFolder::File& file : *files) {
    if (file.path.extension() != Image::kSuffix) continue;
    const auto mapped = MappedFile::open(file.path);
    const auto others = mapped ? Image::origins_of(**mapped) : Result<Image::Origins>(Image::Origins());
    if (!others || others->size() != origins.size()) continue;
    std::vector<std::string> differences;
    for (std::size_t i = 1; i < origins.size(); ++i) {
      if ((*others)[i].second != origins[i].second)
        differences.push_back(
            fmt::format("{} is '{}', not '{}'", origins[i].first, origins[i].second, (*others)[i].second));
    }
    const bool related = others->front().second == model || (*others)[1].second == origins[1].second;
    if (!related || differences.size() >= fewest || differences.empty()) continue;
    fewest = differences.size();
    sentence =
        fmt::format("{} was compiled before, but {}", others->front().second, fmt::join(differences, "; "));
  }
  return sentence;
}

}  // namespace diji
