// `diji compile`: ahead of time, into the compile cache and into a file.
#include "runtime/model_file.h"
#include "tools/context.h"
#include "tools/json.h"
#include "tools/model_options.h"
#include "tools/output.h"
#include "tools/table.h"

#include <array>
#include <optional>

namespace diji::tools {
namespace {

constexpr std::array kOptions = {
    OptionDef{
        "-o", "FILE.dji",
        "write the compiled model: graph, kernel text, weights or where they lie; sizes given by --dim are "
        "fixed in it"},
};

struct Compiled {
  std::string device;
  std::string coverage;
  int compiled_kernels = 0;
  std::size_t modules = 0;
  std::string cache;  ///< what became of it there
  bool cached = false;
};

std::string text_of_miss(const std::string& miss) {
  return miss.empty() ? "the model was there" : fmt::format("the model is there now ({})", miss);
}

void tell(Context& context, const std::filesystem::path& model, const Compiled& compiled,
          const std::filesystem::path& file, const std::optional<WrittenModel>& written) {
  if (context.json()) {
    Json document = {{"compiled_kernels", compiled.compiled_kernels},
                     {"modules", compiled.modules},
                     {"cached", compiled.cached},
                     {"file", written ? Json(file.string()) : Json()},
                     {"bytes", written ? Json(written->bytes) : Json()}};
    return print_json(document);
  }
  print("model     {} for {}\n", model.string(), compiled.device);
  print("coverage  {}\n", compiled.coverage);
  print("kernels   {} modules, {} compiled now\n", compiled.modules, compiled.compiled_kernels);
  print("cache     {}\n", compiled.cache);
  if (!written) return;
  print("file      {}: {}, {} weights in it, {} left in {}\n", file.string(), text_of_bytes(written->bytes),
        written->copied, written->referenced, model.filename().string());
}

Result<int> to_cache(Context& context, DeviceList& devices, const std::filesystem::path& model,
                     const ModelOptions& options) {
  const auto session = TRY(Session::open(devices, model, options.session));
  tell(context, model,
       {.device = session->device().name(),
        .coverage = session->coverage().line(),
        .compiled_kernels = session->compiled_kernels(),
        .modules = session->module_count(),
        .cache = text_of_miss(session->cache_miss()),
        .cached = session->cache_miss().empty()},
       {}, {});
  return 0;
}

Result<int> to_file(Context& context, DeviceList& devices, const std::filesystem::path& model,
                    const ModelOptions& options, const std::filesystem::path& file) {
  Device* device = TRY(devices.open(options.session.device));
  SessionOptions fixed = options.session;
  fixed.fixed_dims = options.dims;
  const WrittenModel written = TRY(write_model_file(file, model, fixed, *device));
  const OpenedModel& made = written.model;
  const bool in_cache = fixed.fixed_dims.empty();
  tell(context, model,
       {.device = device->name(),
        .coverage = made.coverage.line(),
        .compiled_kernels = made.executable->compiled_kernels,
        .modules = made.executable->modules->size(),
        .cache = in_cache ? text_of_miss(made.miss) : "not for these sizes: they are in the file alone",
        .cached = in_cache && made.miss.empty()},
       file, written);
  return 0;
}

Result<int> run(Context& context, const Arguments& arguments) {
  const ModelOptions options = TRY(model_options(context, arguments));
  const std::filesystem::path model = arguments.operands()[0];
  const std::filesystem::path file = arguments.text("-o", "");
  if (!file.empty() && file.extension() != kModelFileSuffix)
    return fail(ErrorCode::usage, "-o: '{}' does not end in {}, by which diji run knows it", file.string(),
                kModelFileSuffix);
  DeviceList* devices = TRY(context.devices(arguments));
  if (file.empty() && !options.dims.empty())
    return fail(ErrorCode::usage,
                "--dim writes a size into FILE.dji, and there is no -o; the cache serves all");
  return file.empty() ? to_cache(context, *devices, model, options)
                      : to_file(context, *devices, model, options, file);
}

}  // namespace

constexpr Verb kCompileVerb = {
    .name = "compile",
    .summary = "compile a model ahead of time: into the compile cache, and into a file that runs without it",
    .example = "compile model.onnx -o model.dji",
    .operands = {"MODEL", "a file that diji reads (.onnx, or .txt with a graph)", 1, 1},
    .options = kOptions,
    .shared_options = kModelOptions,
    .run = run,
};

}  // namespace diji::tools
