// Identity, image, import, passes: as little of it as the cache allows.
#include "runtime/open_model.h"

#include "base/log.h"
#include "runtime/image_cache.h"

#include <utility>

namespace diji {
namespace {

// Values that another part of the model told come anew with every run: no image a value.
bool worth_keeping(const SessionOptions& options) { return options.known.empty(); }

Result<OpenedModel> opened(Image image, Device& device, CompileCache& cache, const std::string& digest) {
  OpenedModel model{.executable = TRY(restore(image.graph, device, cache, image.parts)),
                    .coverage = std::move(image.coverage),
                    .digest = digest,
                    .miss = {}};
  for (const std::string& warning : image.warnings) warn("{}", warning);
  return model;
}

// The compiled model, where the cache has a good one. Errors: out_of_memory, in which compiling it would end
// too.
Result<std::optional<OpenedModel>> cached(CompileCache& cache, const std::optional<Image::Origins>& origins,
                                          Device& device) {
  if (!origins) return std::nullopt;
  ImageCache images(cache.files());
  auto image = TRY(images.find(*origins, device.threads()));
  if (!image) return std::nullopt;
  auto model = opened(*std::move(image), device, cache, (*origins)[1].second);
  if (model) return *std::move(model);
  if (model.error().code == ErrorCode::out_of_memory) return std::unexpected(std::move(model).error());
  warn("the compiled model of {} is not used: {}", origins->front().second, model.error().message);
  return std::nullopt;
}

// Through the passes, and into the cache where it has a name there and is not `there` yet.
Result<CompiledModel> compiled(ImportedModel imported, const SessionOptions& options, Device& device,
                               CompileCache& cache, const std::optional<Image::Origins>& origins,
                               bool there) {
  ImageCache images(cache.files());
  CompiledModel result;
  OpenedModel& model = result.model;
  model.coverage = coverage_of(imported.graph, device.info().dialect);
  model.digest = imported.digest;
  if (!there) model.miss = origins ? images.why_missing(*origins) : "these options are not kept";
  model.executable = TRY(compile(std::move(imported.graph), device, cache, options.passes, &result.parts));
  result.warnings = std::move(imported.warnings);
  if (!origins || there) return result;
  std::vector<ModuleText> texts = std::exchange(result.parts.texts, {});  // a hit needs the code alone
  Image image{.origins = *origins,
              .graph = model.executable->programs[0].graph,
              .parts = std::move(result.parts),
              .coverage = model.coverage,
              .warnings = result.warnings,
              .constants = {},
              .checksums = {}};
  images.store(image);
  result.parts = std::move(image.parts);
  result.parts.texts = std::move(texts);
  return result;
}

}  // namespace

Result<ImportedModel> import_model(const std::filesystem::path& path, const SessionOptions& options,
                                   bool stretches) {
  return read_onnx(path, {.fixed_dims = options.fixed_dims,
                          .constants = options.constants,
                          .overrides = options.overrides,
                          .custom_ops = options.custom_ops,
                          .known = options.known,
                          .only = options.only,
                          .stretches = stretches});
}

Result<OpenedModel> open_model(const std::filesystem::path& path, const SessionOptions& options,
                               Device& device, bool stretches) {
  CompileCache cache;
  ModelIdentity identity(cache.files(), path);
  const std::string name = path.filename().string();
  const bool keep = worth_keeping(options);
  const auto known = keep ? identity.known() : std::nullopt;
  if (known) {
    if (auto model = TRY(cached(cache, origins_of(name, *known, options, device, stretches), device)))
      return *std::move(model);
  }
  ImportedModel imported = TRY(import_model(path, options, stretches));
  const auto origins = keep ? origins_of(name, imported.digest, options, device, stretches) : std::nullopt;
  if (keep && known != imported.digest) {
    identity.remember(imported.digest, imported.external_files);
    if (auto model = TRY(cached(cache, origins, device))) return *std::move(model);
  }
  return TRY(compiled(std::move(imported), options, device, cache, origins, false)).model;
}

Result<CompiledModel> compile_model(const std::filesystem::path& path, const SessionOptions& options,
                                    Device& device) {
  CompileCache cache;
  ModelIdentity identity(cache.files(), path);
  ImportedModel imported = TRY(import_model(path, options, false));
  std::optional<Image::Origins> origins;
  if (options.fixed_dims.empty() && worth_keeping(options)) {
    identity.remember(imported.digest, imported.external_files);
    origins = origins_of(path.filename().string(), imported.digest, options, device, false);
  }
  const bool there = origins && TRY(ImageCache(cache.files()).find(*origins, device.threads())).has_value();
  return compiled(std::move(imported), options, device, cache, origins, there);
}

}  // namespace diji
