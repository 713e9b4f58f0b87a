// Writing and opening FILE.dji; the format is that of runtime/image.cpp.
#include "runtime/model_file.h"

#include "base/checksum.h"
#include "base/log.h"
#include "formats/onnx/weights.h"
#include "runtime/image.h"

#include <algorithm>

namespace diji {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReferenceBytesMin = 4096;  // smaller constants are not worth a search

// What kernels of a text run on.
std::string kind_of(const Device& device) {
  const DeviceTraits traits = traits_of(device);
  return fmt::format("{}, vectors of {} bytes, {} registers, at most {} lanes{}{}", traits.dialect,
                     traits.vector_bytes, traits.vector_registers, traits.lanes_max,
                     traits.without_f64 ? ", no f64" : "", traits.simt ? ", SIMT" : "");
}

// The constants whose bytes stand in files below `folder`, found by their contents.
Result<std::map<const HostTensor*, WeightReference>> references_to(const fs::path& model,
                                                                   const fs::path& folder,
                                                                   const Graph& graph) {
  std::error_code status;
  const fs::path below = fs::relative(fs::absolute(model).parent_path(), folder, status);
  if (status || below.empty() || *below.begin() == "..") return {};
  const std::vector<WeightBytes> weights = TRY(weights_of(model));
  std::map<std::pair<std::size_t, std::uint64_t>, const WeightBytes*> by_contents;
  for (const WeightBytes& weight : weights)
    by_contents.emplace(std::pair(weight.bytes.size(), checksum_of(weight.bytes)), &weight);
  std::map<const HostTensor*, WeightReference> references;
  ConstantList apart;
  print(graph, apart);
  for (const auto& constant : apart) {
    const auto bytes = constant->bytes();
    if (bytes.size() < kReferenceBytesMin) continue;
    const auto found = by_contents.find({bytes.size(), checksum_of(bytes)});
    if (found == by_contents.end() || !std::ranges::equal(found->second->bytes, bytes)) continue;
    const fs::path file = (below / found->second->file).lexically_normal();
    references.emplace(constant.get(), WeightReference{file.string(), found->second->offset});
  }
  return references;
}

Result<Image> read_image(const fs::path& file) {
  auto image = Image::parse(TRY(MappedFile::open(file)));
  if (!image) return image;
  if (image->origin("diji") == DIJI_VERSION) return image;
  return fail(ErrorCode::unsupported, "{} was compiled by diji {}, this is {}: compile the model again",
              file.string(), image->origin("diji"), DIJI_VERSION);
}

}  // namespace

Result<WrittenModel> write_model_file(const fs::path& file, const fs::path& model,
                                      const SessionOptions& options, Device& device) {
  if (!options.custom_ops.empty())
    return fail(ErrorCode::unsupported, "{}: operators of a library of one's own are compiled at each start",
                model.string());
  CompiledModel compiled = TRY(compile_model(model, options, device));
  WrittenModel written{.model = std::move(compiled.model)};
  compiled.parts.blobs.clear();
  Image image{.origins = {{"model", model.filename().string()},
                          {"digest", written.model.digest},
                          {"device", kind_of(device)},
                          {"diji", DIJI_VERSION}},
              .graph = written.model.executable->programs[0].graph,
              .parts = std::move(compiled.parts),
              .coverage = written.model.coverage,
              .warnings = std::move(compiled.warnings)};
  image.references = TRY(references_to(model, fs::absolute(file).parent_path(), *image.graph));
  const Image::Bytes bytes = image.bytes();
  TRY(write_file_atomically(file, bytes.pieces));
  written.bytes = bytes.count;
  written.referenced = static_cast<int>(image.references.size());
  written.copied = static_cast<int>(bytes.pieces.size() / 2);  // after the head a padding and a constant each
  return written;
}

Result<OpenedModel> open_model_file(const fs::path& file, Device& device) {
  Image image = TRY(read_image(file));
  if (const std::string kind = kind_of(device); image.origin("device") != kind) {
    return fail(ErrorCode::unsupported,
                "{} has kernels for {}; {} takes {}: compile the model again with --device {}", file.string(),
                image.origin("device"), device.name(), kind, device.name());
  }
  if (auto checked = image.check_constants(&device.threads()); !checked) {
    checked.error().code = ErrorCode::mismatch;
    return in_context(fmt::format("{}: weights of {} are not those it was compiled from", file.string(),
                                  image.origin("model")),
                      std::move(checked).error());
  }
  for (const std::string& warning : image.warnings) warn("{}", warning);
  CompileCache cache;
  return OpenedModel{.executable = TRY(restore(image.graph, device, cache, image.parts)),
                     .coverage = std::move(image.coverage),
                     .digest = image.origin("digest"),
                     .miss = {}};
}

Result<Graph> read_model_file(const fs::path& file) { return *TRY(read_image(file)).graph; }

}  // namespace diji
