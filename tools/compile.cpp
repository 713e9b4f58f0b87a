// `diji compile`: ahead of time, into the compile cache and into a file.
#include "runtime/model_file.h"
#include "tools/context.h"
#include "tools/json.h"
#include "tools/model_options.h"
#include "tools/output.h"
#include "tools/table.h"

#include <array>

namespace diji::tools {
namespace {

constexpr std::array kOptions = {
    OptionDef{
        "-o", "FILE.dji",
        "write the compiled model: graph, kernel text, weights or where they lie; sizes given by --dim are "
        "fixed in it"},
};

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
  const auto session = TRY(Session::open(*devices, model, options.session));
  std::optional<WrittenModel> written;
  if (!file.empty()) {
    SessionOptions fixed = options.session;
    fixed.fixed_dims = options.dims;
    written = TRY(write_model_file(file, model, fixed, session->device()));
  }
  const std::string& miss = session->cache_miss();
  if (context.json()) {
    Json document = {{"compiled_kernels", session->compiled_kernels()},
                     {"modules", session->module_count()},
                     {"cached", miss.empty()},
                     {"file", written ? Json(file.string()) : Json()},
                     {"bytes", written ? Json(written->bytes) : Json()}};
    print_json(document);
    return 0;
  }
  print("model     {} for {}\n", model.string(), session->device().name());
  print("coverage  {}\n", session->coverage().line());
  print("kernels   {} modules, {} compiled now\n", session->module_count(), session->compiled_kernels());
  print("cache     {}\n",
        miss.empty() ? "the model was there" : fmt::format("the model is there now ({})", miss));
  if (written) {
    print("file      {}: {}, {} weights in it, {} left in {}\n", file.string(), text_of_bytes(written->bytes),
          written->copied, written->referenced, model.filename().string());
  }
  return 0;
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
