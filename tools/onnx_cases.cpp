// ONNX's node tests: read, run, compare, and go on with the next whatever happens.
#include "tools/onnx_cases.h"

#include "runtime/session.h"
#include "tools/output.h"
#include "tools/tensor_inputs.h"
#include "tools/tensor_outputs.h"
#include "tools/verb.h"

#include <algorithm>
#include <filesystem>

namespace diji::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDataFolder = "test_data_set_0";

std::vector<fs::path> cases_in(const fs::path& folder) {
  std::vector<fs::path> cases;
  std::error_code status;
  for (fs::directory_iterator it(folder, status), end; !status && it != end; it.increment(status)) {
    std::error_code ignored;
    if (fs::exists(it->path() / "model.onnx", ignored)) cases.push_back(it->path());
  }
  std::ranges::sort(cases);
  return cases;
}

// Shapes, axes and scales are parameters rather than data: integers, and what stands behind the first input.
NamedTensors parameters_of(const std::vector<NamedTensor>& inputs, bool floats_too) {
  NamedTensors parameters;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool taken = !is_floating(inputs[i].tensor.dtype()) || (floats_too && i > 0);
    if (taken && !inputs[i].name.empty()) parameters.emplace(inputs[i].name, inputs[i].tensor);
  }
  return parameters;
}

struct Answer {
  std::vector<Port> ports;
  std::vector<HostTensor> outputs;
};

Result<Answer> answer_of(DeviceList& devices, const fs::path& model, const SessionOptions& options,
                         std::vector<NamedTensor> inputs, std::optional<Arithmetic> interpreter) {
  std::erase_if(inputs, [&](const NamedTensor& input) { return options.constants.contains(input.name); });
  if (interpreter) {
    const Graph graph = TRY(read_model(model, options));
    return Answer{graph.outputs(),
                  TRY(interpret_by_name(graph, *interpreter, by_name(inputs, graph.inputs())))};
  }
  const auto session = TRY(Session::open(devices, model, options));
  return Answer{session->outputs(), TRY(session->run(by_name(inputs, session->graph().inputs())))};
}

// ONNX's tests feed parameters as inputs. Where their values must be known to compile, they become constants,
// as they are in models.
Result<Answer> any_answer_of(DeviceList& devices, const fs::path& model, const std::string& device,
                             const std::vector<NamedTensor>& inputs, std::optional<Arithmetic> interpreter) {
  SessionOptions options{.device = device};
  auto answer = answer_of(devices, model, options, inputs, interpreter);
  if (answer || answer.error().code != ErrorCode::unsupported) return answer;
  for (const bool floats_too : {false, true}) {
    options.constants = parameters_of(inputs, floats_too);
    if (options.constants.empty()) continue;
    auto again = answer_of(devices, model, options, inputs, interpreter);
    if (again) return again;
  }
  return answer;
}

Result<ComparedOutput> run_case(DeviceList& devices, const OnnxCaseOptions& options, const fs::path& folder) {
  const std::vector<NamedTensor> inputs = TRY(read_numbered(folder / kDataFolder, "input"));
  const std::vector<NamedTensor> expected = TRY(read_numbered(folder / kDataFolder, "output"));
  const auto [ports, outputs] =
      TRY(any_answer_of(devices, folder / "model.onnx", options.device, inputs, options.interpreter));
  if (expected.empty() || expected.size() > outputs.size()) {
    return fail(ErrorCode::mismatch, "{} outputs expected, the model has {}", expected.size(),
                outputs.size());
  }
  ComparedOutput worst{.ok = true};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ComparedOutput one =
        compare_output(ports[i].name, outputs[i], expected[i].tensor, kDefaultRtol, kDefaultAtol);
    worst.max_abs_error = std::max(worst.max_abs_error, one.max_abs_error);
    worst.max_rel_error = std::max(worst.max_rel_error, one.max_rel_error);
    if (!one.ok && worst.ok) worst.reason = fmt::format("output '{}': {}", one.name, one.reason);
    worst.ok &= one.ok;
  }
  return worst;
}

}  // namespace

Result<int> run_onnx_cases(DeviceList& devices, const OnnxCaseOptions& options) {
  const std::vector<fs::path> cases = cases_in(options.folder);
  if (cases.empty()) {
    auto error = fail(ErrorCode::not_found, "{}: no folder with a model.onnx in it", options.folder);
    error.error().file = options.folder;
    return error;
  }
  TRY(devices.open(options.device));  // a wrong device is one error, not one a case
  int failed = 0;
  for (const fs::path& path : cases) {
    const auto compared = run_case(devices, options, path);
    const bool ok = compared && compared->ok;
    const std::string reason = compared ? compared->reason : compared.error().message;
    const std::string name = path.filename().string();
    failed += ok ? 0 : 1;
    if (options.json) {
      print_json({{"case", name},
                  {"ok", ok},
                  {"max_abs_error", compared ? Json(compared->max_abs_error) : Json()},
                  {"max_rel", compared ? Json(compared->max_rel_error) : Json()},
                  {"reason", reason}});
    } else {
      print("{:<6}  {}{}{}\n", ok ? "ok" : "FAILED", name, reason.empty() ? "" : ": ", reason);
    }
  }
  if (!options.json) print("{} cases, {} failed\n", cases.size(), failed);
  return failed == 0 ? 0 : kAnswerIsNo;
}

}  // namespace diji::tools
