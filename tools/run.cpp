// `diji run`: load, compile, run; outputs to files or against expectations; latency.
#include "base/log.h"
#include "runtime/model_file.h"
#include "tools/bisect.h"
#include "tools/model_options.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/tensor_inputs.h"
#include "tools/tensor_outputs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

namespace diji::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kRunsMax = 1'000'000;
constexpr std::int64_t kSeedMax = std::int64_t{1} << 32;

constexpr std::array kOptions = {
    OptionDef{"--input", "NAME=FILE|random|zeros", "an input: from FILE.npy or FILE.pb, or made up", true},
    OptionDef{"--data", "DIR",
              "inputs input_N.pb and expected outputs output_N.pb, as ONNX's tests have them"},
    OptionDef{"--seed", "N", "of random inputs, and of the numbers that the model draws (default: 1)"},
    OptionDef{"--output", "DIR", "write each output to DIR/<name>.npy (.pb where npy lacks the dtype)"},
    OptionDef{"--expect", "DIR",
              "compare each output with DIR/<name>.npy or .pb; exit code 1 where one differs"},
    OptionDef{"--rtol", "R",
              "relative tolerance of comparisons (default: 1e-3); integers are compared exactly"},
    OptionDef{"--atol", "A", "absolute tolerance of comparisons (default: 1e-7)"},
    OptionDef{"--bisect", "",
              "where an output is not as expected: find the rule of the compiler or the operator that makes "
              "it wrong"},
    OptionDef{"--repeat", "N", "run N more times and print latency percentiles"},
    OptionDef{"--warmup", "N", "runs before those that are measured (default: 0)"},
    kInterpreterOption,
};

struct RunRequest {
  ModelOptions model;
  InputOptions inputs;
  std::string output_folder, expect_folder;
  double rtol = 0, atol = 0;
  std::int64_t repeat = 0, warmup = 0;
  bool bisect = false;
  std::optional<Arithmetic> interpreter;
};

Result<RunRequest> options_from(Context& context, const Arguments& arguments) {
  RunRequest options;
  options.model = TRY(model_options(context, arguments));
  options.inputs.sources = TRY(parse_inputs(arguments.all("--input")));
  options.inputs.data_folder = arguments.text("--data", "");
  options.inputs.dims = options.model.dims;
  options.inputs.seed = static_cast<std::uint64_t>(TRY(arguments.integer("--seed", 1, 0, kSeedMax)));
  options.model.session.seed = options.inputs.seed;
  options.output_folder = arguments.text("--output", "");
  options.expect_folder = arguments.text("--expect", "");
  options.rtol = TRY(arguments.real("--rtol", kDefaultRtol));
  options.atol = TRY(arguments.real("--atol", kDefaultAtol));
  options.repeat = TRY(arguments.integer("--repeat", 0, 0, kRunsMax));
  options.warmup = TRY(arguments.integer("--warmup", 0, 0, kRunsMax));
  if (!options.expect_folder.empty() && !options.inputs.data_folder.empty()) {
    return fail(ErrorCode::usage, "--expect and --data both say what to expect; give one of them");
  }
  options.bisect = arguments.has("--bisect");
  if (options.bisect && options.expect_folder.empty() && options.inputs.data_folder.empty())
    return fail(ErrorCode::usage, "--bisect needs to know what is right: give --expect or --data");
  if (options.bisect && arguments.operands()[0].ends_with(kModelFileSuffix))
    return fail(ErrorCode::usage, "--bisect compiles with other rules: give the model that {} was made from",
                arguments.operands()[0]);
  options.interpreter = TRY(interpreter_option(arguments));
  if (options.interpreter && (options.model.strict || options.model.verbose || options.bisect)) {
    return fail(ErrorCode::usage, "{} is about compiled kernels; the interpreter has none",
                options.model.strict    ? "--strict"
                : options.model.verbose ? "--verbose"
                                        : "--bisect");
  }
  return options;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Nearest rank: the smallest value that at least this share of the runs does not exceed.
double percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

struct Latency {
  double load_ms = 0, first_ms = 0;
  std::vector<double> sorted_ms;  ///< of the measured runs; the first one alone where none were asked for
};

struct Outcome {
  std::vector<HostTensor> outputs;
  RunStats stats;
  std::optional<PeakPlan> plan;  ///< none: interpreted, or of a form that other sizes are run by
  Latency latency;
  std::vector<std::optional<std::string>> files;
  std::vector<ComparedOutput> compared;
  std::string not_finite;
  std::optional<Bisected> bisected;
  bool ok() const { return not_finite.empty() && std::ranges::all_of(compared, &ComparedOutput::ok); }
};

// The model on its device, or its graph and the interpreter.
struct Opened {
  std::unique_ptr<Session> session;  ///< null: interpreted
  Graph interpreted;
  Arithmetic arithmetic = Arithmetic::oracle;
  const Graph& graph() const { return session == nullptr ? interpreted : session->graph(); }
  const std::vector<Port>& outputs() const {
    return session == nullptr ? interpreted.outputs() : session->outputs();
  }
  Result<std::vector<HostTensor>> run(const NamedTensors& inputs, RunStats* stats = nullptr) const {
    return session == nullptr ? interpret_by_name(interpreted, arithmetic, inputs)
                              : session->run(inputs, stats);
  }
};

Result<Opened> open_model(DeviceList& devices, const std::string& path, const RunRequest& options) {
  Opened opened;
  if (options.interpreter) {
    opened.arithmetic = *options.interpreter;
    opened.interpreted = TRY(read_model(path, options.model.session));
  } else {
    opened.session = TRY(Session::open(devices, path, options.model.session));
  }
  return opened;
}

Result<void> run_all(const Opened& opened, const NamedTensors& inputs, const RunRequest& options,
                     Outcome& outcome) {
  if (opened.session != nullptr) {
    if (auto plan = opened.session->planned_peak(inputs)) outcome.plan = *std::move(plan);
  }
  const auto start = Clock::now();
  outcome.outputs = TRY(opened.run(inputs, &outcome.stats));
  outcome.latency.first_ms = milliseconds_since(start);
  for (std::int64_t i = 0; i < options.warmup + options.repeat; ++i) {
    const auto begin = Clock::now();
    TRY(opened.run(inputs));
    if (i >= options.warmup) outcome.latency.sorted_ms.push_back(milliseconds_since(begin));
  }
  if (outcome.latency.sorted_ms.empty()) outcome.latency.sorted_ms.push_back(outcome.latency.first_ms);
  std::ranges::sort(outcome.latency.sorted_ms);
  return {};
}

// What to compare with is read before the run, so that a wrong folder is told at once.
Result<std::vector<std::optional<HostTensor>>> expected_outputs(const std::vector<Port>& ports,
                                                                const RunRequest& options) {
  std::vector<std::optional<HostTensor>> expected(ports.size());
  if (!options.expect_folder.empty()) {
    const auto tensors = TRY(read_expected(options.expect_folder, ports));
    std::ranges::copy(tensors, expected.begin());
  } else if (!options.inputs.data_folder.empty()) {
    const auto numbered = TRY(read_numbered(options.inputs.data_folder, "output"));
    if (numbered.size() > ports.size()) {
      return fail(ErrorCode::mismatch, "{} has {} outputs, the model has {}", options.inputs.data_folder,
                  numbered.size(), ports.size());
    }
    const NamedTensors named = by_name(numbered, ports);
    for (std::size_t i = 0; i < ports.size(); ++i) {
      if (const auto found = named.find(ports[i].name); found != named.end()) expected[i] = found->second;
    }
  }
  return expected;
}

std::vector<ComparedOutput> compare_all(const std::vector<Port>& ports,
                                        const std::vector<HostTensor>& outputs,
                                        const std::vector<std::optional<HostTensor>>& expected,
                                        const RunRequest& options) {
  std::vector<ComparedOutput> compared;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!expected[i]) continue;
    compared.push_back(compare_output(ports[i].name, outputs[i], *expected[i], options.rtol, options.atol));
  }
  return compared;
}

Json json_of(const PeakPlan& plan) {
  return {{"bytes", plan.bytes},
          {"weights_bytes", plan.weights_bytes},
          {"exact", plan.exact()},
          {"as_if", plan.as_if},
          {"open", plan.open}};
}

Json document_of(const Opened& opened, const Outcome& outcome) {
  Json outputs = Json::array();
  for (std::size_t i = 0; i < outcome.outputs.size(); ++i) {
    const HostTensor& tensor = outcome.outputs[i];
    outputs.push_back({{"name", opened.outputs()[i].name},
                       {"dtype", std::string(name_of(tensor.dtype()))},
                       {"shape", tensor.shape()},
                       {"file", outcome.files[i] ? Json(*outcome.files[i]) : Json()}});
  }
  const Latency& latency = outcome.latency;
  Json document = {{"outputs", outputs},
                   {"latency_ms",
                    {{"first", latency.first_ms},
                     {"p50", percentile(latency.sorted_ms, 0.50)},
                     {"p90", percentile(latency.sorted_ms, 0.90)},
                     {"p99", percentile(latency.sorted_ms, 0.99)}}}};
  if (opened.session != nullptr) {
    const Coverage coverage = opened.session->coverage();
    document["compiled_kernels"] = opened.session->compiled_kernels();
    document["peak_bytes"] = opened.session->pool().state().peak_bytes;
    if (outcome.plan) document["planned"] = json_of(*outcome.plan);
    document["coverage"] = {{"native", coverage.native},
                            {"generated", coverage.generated},
                            {"host", coverage.host},
                            {"folded", coverage.folded}};
  }
  if (!outcome.compared.empty()) {
    document["compared"] = Json::array();
    for (const ComparedOutput& compared : outcome.compared) document["compared"].push_back(json_of(compared));
  }
  if (!outcome.not_finite.empty()) document["not_finite"] = outcome.not_finite;
  if (outcome.bisected) document["bisect"] = json_of(*outcome.bisected);
  return document;
}

void print_inputs(const Graph& graph, const NamedTensors& inputs, const InputOptions& options) {
  for (const Port& port : graph.inputs()) {
    const HostTensor& tensor = inputs.at(port.name);
    const auto source = std::ranges::find(options.sources, port.name, &InputSource::name);
    std::string origin = options.data_folder;
    if (source != options.sources.end()) {
      origin = source->kind == InputSource::Kind::random ? fmt::format("random, --seed {}", options.seed)
                                                         : source->file;
    }
    print("input     {} {}{} ({})\n", port.name, name_of(tensor.dtype()), text_of(tensor.shape()), origin);
  }
}

void print_outcome(const std::vector<Port>& ports, const Outcome& outcome) {
  for (std::size_t i = 0; i < outcome.outputs.size(); ++i) {
    const HostTensor& tensor = outcome.outputs[i];
    print("output    {} {}{} = {}\n", ports[i].name, name_of(tensor.dtype()), text_of(tensor.shape()),
          tensor.count() == 0 ? "empty" : preview_of(tensor));
    if (outcome.files[i]) print("          written to {}\n", *outcome.files[i]);
  }
  for (const ComparedOutput& compared : outcome.compared) {
    print("compared  {}: {}\n", compared.name,
          compared.ok ? fmt::format("as expected, largest difference {:.3g}", compared.max_abs_error)
                      : compared.reason);
  }
  if (outcome.bisected) {
    print("bisected  {}; {} trials\n", outcome.bisected->sentence, outcome.bisected->guilty.trials);
  }
  const Latency& latency = outcome.latency;
  print("time      load {}, first run {}", text_of_ms(latency.load_ms), text_of_ms(latency.first_ms));
  if (latency.sorted_ms.size() > 1) {
    print("; {} runs: p50 {}, p90 {}, p99 {}", latency.sorted_ms.size(),
          text_of_ms(percentile(latency.sorted_ms, 0.50)), text_of_ms(percentile(latency.sorted_ms, 0.90)),
          text_of_ms(percentile(latency.sorted_ms, 0.99)));
  }
  print("\n");
}

// In bytes, so that what was planned can be compared with what was used.
void print_planned(const PeakPlan& plan, std::uint64_t used_bytes) {
  print("planned   {} {} bytes, used {}", plan.open.empty() ? "peak" : "at least", plan.bytes, used_bytes);
  if (!plan.open.empty()) print("; {}", plan.open);
  if (!plan.as_if.empty()) print("{}", fmt::format("; as if {}", fmt::join(plan.as_if, " and ")));
  print("; weights {} bytes\n", plan.weights_bytes);
}

void print_verbose(Session& session, const Outcome& outcome) {
  const PoolState pool = session.pool().state();
  print("coverage  {}\n", session.coverage().line());
  print("kernels   {} modules, {} compiled now, the others from the cache\n", session.module_count(),
        session.compiled_kernels());
  print("memory    peak {} (of it for the values of one run {}), held {}, limit {}\n",
        text_of_bytes(pool.peak_bytes), text_of_bytes(outcome.stats.peak_bytes),
        text_of_bytes(pool.held_bytes), pool.limit_bytes == 0 ? "none" : text_of_bytes(pool.limit_bytes));
  if (outcome.plan) print_planned(*outcome.plan, pool.peak_bytes);
  const auto folder = CacheFolder::default_path();
  const std::string& miss = session.cache_miss();
  print("cache     {}{}\n", folder.empty() ? "off" : folder.string(),
        folder.empty() ? std::string()
        : miss.empty() ? ": the model as it was compiled before"
                       : fmt::format(": the model was compiled now ({})", miss));
}

Result<int> run(Context& context, const Arguments& arguments) {
  RunRequest options = TRY(options_from(context, arguments));
  DeviceList* devices = TRY(context.devices(arguments));
  options.model.session.overrides = TRY(take_overrides(arguments.operands()[0], options.inputs));
  const auto start = Clock::now();
  const Opened opened = TRY(open_model(*devices, arguments.operands()[0], options));
  Outcome outcome;
  outcome.latency.load_ms = milliseconds_since(start);
  const std::vector<Port>& ports = opened.outputs();
  const NamedTensors inputs = TRY(make_inputs(opened.graph(), options.inputs));
  const auto expected = TRY(expected_outputs(ports, options));
  TRY(run_all(opened, inputs, options, outcome));

  outcome.files.resize(ports.size());
  if (!options.output_folder.empty())
    outcome.files = write_outputs(options.output_folder, ports, outcome.outputs);
  outcome.compared = compare_all(ports, outcome.outputs, expected, options);
  if (options.bisect && !std::ranges::all_of(outcome.compared, &ComparedOutput::ok)) {
    outcome.bisected = TRY(bisect(*devices, arguments.operands()[0], options.model.session, inputs,
                                  [&](const std::vector<HostTensor>& outputs) {
                                    return std::ranges::all_of(compare_all(ports, outputs, expected, options),
                                                               &ComparedOutput::ok);
                                  }));
  }
  if (options.model.strict) outcome.not_finite = find_not_finite(*opened.session, inputs, outcome.outputs);

  if (context.json()) {
    print_json(document_of(opened, outcome));
  } else {
    print("model     {} on {}\n", arguments.operands()[0],
          options.interpreter ? "the interpreter" : opened.session->device().name());
    print_inputs(opened.graph(), inputs, options.inputs);
    for (const auto& [name, tensor] : options.model.session.overrides) {
      print("weight    {} {}{} (given, in place of its default)\n", name, name_of(tensor.dtype()),
            text_of(tensor.shape()));
    }
    print_outcome(ports, outcome);
    if (options.model.verbose) print_verbose(*opened.session, outcome);
  }
  for (const ComparedOutput& compared : outcome.compared) {
    if (!compared.ok)
      print_aside("diji: output '{}' is not as expected: {}\n", compared.name, compared.reason);
  }
  if (!outcome.not_finite.empty()) print_aside("diji: {}\n", outcome.not_finite);
  if (outcome.bisected) print_aside("diji: {}\n", outcome.bisected->sentence);
  if (!outcome.ok()) return kAnswerIsNo;
  const bool kept = std::ranges::all_of(outcome.files, [](const auto& file) { return file.has_value(); });
  return options.output_folder.empty() || kept ? 0 : exit_code(ErrorCode::io);
}

}  // namespace

constexpr Verb kRunVerb = {
    .name = "run",
    .summary = "load a model, compile it, run it",
    .example = "run model.onnx --input x=random --dim batch=4 --output results",
    .operands = {"MODEL", "an .onnx file, a .dji file of diji compile, or a .txt file with a graph's text", 1,
                 1},
    .options = kOptions,
    .shared_options = kModelOptions,
    .run = run,
};

}  // namespace diji::tools
