// `diji coverage`: how each operator of a model runs, by count and by time.
#include "formats/onnx/import.h"
#include "tools/json.h"
#include "tools/model_options.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/tensor_inputs.h"

#include <algorithm>
#include <array>

namespace diji::tools {
namespace {

constexpr std::array kOptions = {
    OptionDef{"--max-fallback", "SHARE",
              "exit code 1 where more of the operators run on the host, such as 15%"},
};

// What one model answered. Times are of one run on zeros, after a first run; none where the model refuses
// zeros.
struct ModelCoverage {
  std::string model;
  Coverage coverage;
  std::vector<RunStats::KernelTime> kernels;
  std::array<double, 3> ms = {};  ///< by RunsAs
  std::string no_time;            ///< why there are no times
  std::string not_finite;         ///< with --strict
  double fallback = 0;            ///< share of operators on the host
  // Of a model with operators that diji does not have:
  std::vector<OperatorUse> uses;
  std::string refusal;
};

std::size_t index(RunsAs runs_as) { return static_cast<std::size_t>(runs_as); }

Result<void> measure(Session& session, const ModelOptions& options, ModelCoverage& result) {
  InputOptions inputs{.dims = options.dims};
  for (const Port& port : session.graph().inputs()) {
    inputs.sources.push_back({.name = port.name, .kind = InputSource::Kind::zeros});
  }
  const NamedTensors zeros = TRY(make_inputs(session.graph(), inputs));
  RunStats stats;
  TRY(session.run(zeros));
  const auto outputs = TRY(session.run(zeros, &stats, {.timed = true}));
  result.kernels = std::move(stats.kernels);
  for (const auto& kernel : result.kernels) result.ms[index(kernel.runs_as)] += kernel.milliseconds;
  if (options.strict) result.not_finite = find_not_finite(session, zeros, outputs);
  return {};
}

// What a refused model needs, where operators are the reason.
Result<ModelCoverage> survey(const std::string& model, const ModelOptions& options, Error refusal) {
  if (refusal.code != ErrorCode::unsupported) return std::unexpected(std::move(refusal));
  auto uses = survey_onnx(model, options.session.custom_ops);
  if (!uses || std::ranges::none_of(*uses, &OperatorUse::missing)) return std::unexpected(std::move(refusal));
  return ModelCoverage{.model = model, .uses = *std::move(uses), .refusal = std::move(refusal.message)};
}

Result<ModelCoverage> cover(DeviceList& devices, const std::string& model, const ModelOptions& options) {
  auto opened = Session::open(devices, model, options.session);
  if (!opened) return survey(model, options, std::move(opened).error());
  const auto session = *std::move(opened);
  ModelCoverage result{.model = model, .coverage = session->coverage()};
  const Coverage& coverage = result.coverage;
  const int count = coverage.native + coverage.generated + coverage.host + coverage.folded;
  result.fallback = count == 0 ? 0 : static_cast<double>(coverage.host) / count;
  auto measured = measure(*session, options, result);
  if (measured) return result;
  if (measured.error().code == ErrorCode::usage) return std::unexpected(std::move(measured).error());
  result.no_time = measured.error().message;  // coverage is an answer without times too
  return result;
}

std::string_view how_of(const OperatorUse& use) { return use.missing ? "missing" : "known"; }

Json json_of_refused(const ModelCoverage& model) {
  Json rows = Json::array();
  for (const OperatorUse& use : model.uses) {
    rows.push_back(
        {{"op", use.type}, {"how", std::string(how_of(use))}, {"count", use.count}, {"reason", use.hint}});
  }
  return {{"model", model.model}, {"refused", model.refusal}, {"rows", rows}};
}

void print_refused(const ModelCoverage& model) {
  print("{}: not every operator is built yet\n", model.model);
  Table table({"operator", ">count", "how", "reason"});
  for (const OperatorUse& use : model.uses) {
    table.add({use.type, fmt::format("{}", use.count), std::string(how_of(use)), use.hint});
  }
  table.print();
}

Json json_of(const ModelCoverage& model) {
  if (!model.refusal.empty()) return json_of_refused(model);
  const Coverage& coverage = model.coverage;
  const auto time = [&](RunsAs runs_as) {
    return model.no_time.empty() ? Json(model.ms[index(runs_as)]) : Json();
  };
  Json rows = Json::array(), kernels = Json::array();
  for (const CoverageRow& row : coverage.rows) {
    rows.push_back({{"op", row.op}, {"how", row.how}, {"count", row.count}, {"reason", row.reason}});
  }
  for (const auto& kernel : model.kernels) {
    kernels.push_back({{"kernel", kernel.entry}, {"time_ms", kernel.milliseconds}});
  }
  return {{"model", model.model},
          {"native", coverage.native},
          {"generated", coverage.generated},
          {"host", coverage.host},
          {"folded", coverage.folded},
          {"time_ms",
           {{"native", time(RunsAs::native)},
            {"generated", time(RunsAs::generated)},
            {"host", time(RunsAs::host)}}},
          {"fallback", model.fallback},
          {"rows", rows},
          {"kernels", kernels}};
}

// One model's keys stand on top; with several, each has an object of its own.
void print_document(const std::vector<ModelCoverage>& models) {
  if (models.size() == 1) return print_json(json_of(models[0]));
  Json all = Json::array();
  for (const ModelCoverage& model : models) all.push_back(json_of(model));
  print_json({{"models", all}});
}

void print_text(const ModelCoverage& model, bool verbose) {
  if (!model.refusal.empty()) return print_refused(model);
  print("{}: {}\n", model.model, model.coverage.line());
  Table table({"operator", ">count", "how", "reason"});
  for (const CoverageRow& row : model.coverage.rows) {
    table.add({row.op, fmt::format("{}", row.count), row.how, row.reason});
  }
  table.print();
  if (!model.no_time.empty()) {
    print("no times: a run on zeros was refused: {}\n", model.no_time);
    return;
  }
  const auto ms = [&](RunsAs runs_as) { return text_of_ms(model.ms[index(runs_as)]); };
  print("time of one run on zeros: generated {} in {} kernels, native {}, host {}\n", ms(RunsAs::generated),
        std::ranges::count(model.kernels, RunsAs::generated, &RunStats::KernelTime::runs_as),
        ms(RunsAs::native), ms(RunsAs::host));
  if (!verbose) return;
  auto kernels = model.kernels;
  std::ranges::sort(kernels, std::greater(), &RunStats::KernelTime::milliseconds);
  Table times({">time", ">share", "kernel"});
  for (const auto& kernel : kernels) {
    const double all_ms = model.ms[0] + model.ms[1] + model.ms[2];
    const double share = all_ms > 0 ? kernel.milliseconds / all_ms : 0;
    times.add({text_of_ms(kernel.milliseconds), fmt::format("{:.1f} %", 100 * share), kernel.entry});
  }
  times.print();
}

Result<int> run(Context& context, const Arguments& arguments) {
  const ModelOptions options = TRY(model_options(context, arguments));
  const double fallback_max = TRY(arguments.share("--max-fallback", 1.0));
  DeviceList* devices = TRY(context.devices(arguments));
  std::vector<ModelCoverage> models;
  for (const std::string& model : arguments.operands())
    models.push_back(TRY(cover(*devices, model, options)));
  if (context.json()) {
    print_document(models);
  } else {
    for (const ModelCoverage& model : models) print_text(model, options.verbose);
  }
  int code = 0;
  for (const ModelCoverage& model : models) {
    if (!model.not_finite.empty()) {
      print_aside("diji: {}: {}\n", model.model, model.not_finite);
      code = kAnswerIsNo;
    }
    if (model.fallback > fallback_max) {
      print_aside("diji: {}: {:.1f} % of the operators run on the host, more than {:.1f} %\n", model.model,
                  100 * model.fallback, 100 * fallback_max);
      code = kAnswerIsNo;
    }
  }
  for (const ModelCoverage& model : models) {
    if (model.refusal.empty()) continue;
    print_aside("diji: {}\n", model.refusal);
    code = exit_code(ErrorCode::unsupported);
  }
  return code;
}

}  // namespace

constexpr Verb kCoverageVerb = {
    .name = "coverage",
    .summary = "which operators of a model run native, generated or on the host",
    .example = "coverage model.onnx --dim batch=4 --max-fallback 15%",
    .operands = {"MODEL...", "the model files", 1, Operands::kAnyCount},
    .options = kOptions,
    .shared_options = kModelOptions,
    .run = run,
};

}  // namespace diji::tools
