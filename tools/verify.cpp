// `diji verify`: every operator on a device against its float64 reference, within the proven bound.
#include "base/files.h"
#include "graph/custom_op.h"
#include "ops/catalog.h"
#include "runtime/conformance.h"
#include "tools/certificate.h"
#include "tools/context.h"
#include "tools/guard.h"
#include "tools/json.h"
#include "tools/model_options.h"
#include "tools/onnx_cases.h"
#include "tools/output.h"
#include "tools/table.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>

namespace diji::tools {
namespace {

constexpr std::array kOptions = {
    OptionDef{"--op", "GLOB", "the operators whose name matches, such as 'reduce_*' (default: all)"},
    OptionDef{"--dtype", "D", "this dtype only, such as f32 (default: all that an operator takes)"},
    OptionDef{"--onnx-cases", "DIR", "instead: ONNX's node tests, a folder a case; one line of JSON a case"},
    kInterpreterOption,
    OptionDef{"--certify", "FILE",
              "also the rules of device_plugin.h; the certificate of the one device goes to this file"},
    OptionDef{"--sample", "N", "only N of the operators x dtypes, drawn by --seed (default: all)"},
    OptionDef{"--seed", "S", "of the sample (default: 0)"},
    OptionDef{"--timeout", "S",
              "of --certify, --op-library: the seconds that a rule or an operator may take (default: 120)"},
    kPluginOption,
    OptionDef{kOpLibraryOption.name, kOpLibraryOption.value,
              "instead of diji's operators those of this library", true},
};

struct Task {
  const OpDef* op;
  DType dtype;
};

std::vector<std::string> names_of(const std::vector<const OpDef*>& operators) {
  std::vector<std::string> names;
  for (const OpDef* op : operators) names.emplace_back(op->name);
  return names;
}

Result<std::vector<DType>> dtypes_of(const Arguments& arguments) {
  std::vector<DType> all;
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    all.push_back(static_cast<DType>(i));
    names.push_back(name_of(all.back()));
  }
  const std::size_t chosen = TRY(arguments.choice("--dtype", names, kDTypeCount));
  return chosen == kDTypeCount ? all : std::vector<DType>{all[chosen]};
}

// Those of the libraries on trial, else diji's own.
std::vector<const OpDef*> operators_on_trial(std::vector<const OpDef*> custom_ops) {
  return custom_ops.empty() ? catalog() : custom_ops;
}

Result<std::vector<Task>> tasks_of(const Arguments& arguments, const std::vector<const OpDef*>& operators) {
  const std::vector<DType> dtypes = TRY(dtypes_of(arguments));
  const std::string glob = arguments.text("--op", "*");
  std::vector<Task> tasks;
  bool any_op = false;
  for (const OpDef* op : operators) {
    if (::fnmatch(glob.c_str(), std::string(op->name).c_str(), 0) != 0) continue;
    any_op = true;
    const DTypeSet allowed = op->inputs.empty() ? kAny : op->inputs[0].dtypes;
    for (const DType dtype : dtypes) {
      if ((op->samples != nullptr || op->custom != nullptr) && contains(allowed, dtype))
        tasks.push_back({op, dtype});
    }
  }
  if (!any_op) {
    return fail(ErrorCode::usage, "--op: no operator is named '{}'{}", glob,
                did_you_mean(glob, names_of(operators)));
  }
  if (tasks.empty())
    return fail(ErrorCode::usage, "--dtype: none of these operators takes {}", arguments.text("--dtype", ""));
  return tasks;
}

// A seeded draw, in the catalogue's order. The generator and the draw are fixed: a seed means the same
// everywhere.
Result<std::vector<Task>> drawn(std::vector<Task> tasks, const Arguments& arguments) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t sample = TRY(arguments.integer("--sample", 0, 1, kMost));
  std::mt19937_64 random(static_cast<std::uint64_t>(TRY(arguments.integer("--seed", 0, 0, kMost))));
  if (sample == 0 || sample >= std::ssize(tasks)) return tasks;
  std::vector<Task> taken;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    // Each of those left is as likely as the others to be among what is still to be taken.
    const auto wanted = static_cast<std::uint64_t>(sample - std::ssize(taken));
    if (random() % (tasks.size() - i) < wanted) taken.push_back(tasks[i]);
  }
  return taken;
}

// --device says which; a plugin on trial brings its own; else the default.
std::vector<std::string> devices_to_verify(DeviceList& devices, const Context& context,
                                           const Arguments& arguments) {
  std::vector<std::string> names;
  const std::vector<std::string>& plugins = arguments.all(kPluginOption.name);
  if (!arguments.has("--device") && !plugins.empty()) {
    for (const DeviceEntry& entry : devices.entries()) {
      if (std::ranges::find(plugins, entry.plugin->origin()) != plugins.end()) names.push_back(entry.name);
    }
  }
  if (names.empty()) names.push_back(context.device_name());
  return names;
}

// A line on a terminal that the next one overwrites.
void show_progress(const Device& device, const Task& task, std::size_t number, std::size_t count) {
  static const bool shown = ::isatty(STDERR_FILENO) == 1;
  if (!shown) return;
  if (number == count) return print_aside("\r{:79}\r", "");
  const std::string line = fmt::format("{} of {}: {} {} on {}", number + 1, count, task.op->name,
                                       name_of(task.dtype), device.name());
  print_aside("\r{:<79.79}", line);
}

// What a crash is blamed on: an operator's gradient is called to be compared with it.
std::string step_of(const Task& task) {
  const CustomOp* gradient = task.op->custom == nullptr ? nullptr : task.op->custom->gradient();
  const std::string name = fmt::format("{} {}", task.op->name, name_of(task.dtype));
  return gradient == nullptr ? name : fmt::format("{} or its gradient {}", name, gradient->record().name);
}

Result<std::vector<VerifyRow>> verify_all(DeviceList& devices, const std::vector<std::string>& names,
                                          const std::vector<Task>& tasks, const StepBegins& begins) {
  std::vector<VerifyRow> rows;
  CompileCache cache;
  for (const std::string& name : names) {
    Device* device = TRY(devices.open(name));
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      begins(step_of(tasks[i]));
      show_progress(*device, tasks[i], i, tasks.size());
      rows.push_back(verify_operator(*device, cache, *tasks[i].op, tasks[i].dtype));
    }
    if (!tasks.empty()) show_progress(*device, tasks[0], tasks.size(), tasks.size());
  }
  return rows;
}

struct Totals {
  int cases = 0, failed = 0, unsupported = 0;
};

void print_document(const std::vector<VerifyRow>& rows, const Totals& totals) {
  Json list = Json::array();
  for (const VerifyRow& row : rows) {
    list.push_back({{"op", row.op},
                    {"dtype", std::string(name_of(row.dtype))},
                    {"device", row.device},
                    {"cases", row.cases},
                    {"worst_ulp", row.worst_ulp},
                    {"failed", row.failed},
                    {"worst_share", row.worst_share},
                    {"unsupported", row.unsupported},
                    {"unproved", row.unproved},
                    {"problem", row.problem},
                    {"bits", row.bits}});
  }
  print_json({{"cases", totals.cases},
              {"failed", totals.failed},
              {"rows", list},
              {"unsupported", totals.unsupported}});
}

void print_text(const std::vector<VerifyRow>& rows, const Totals& totals) {
  Table table({"operator", "dtype", "device", ">cases", ">failed", ">refused", ">unproved", ">worst ULP",
               ">of bound"});
  for (const VerifyRow& row : rows) {
    const bool compared = row.cases > row.unsupported;
    table.add({row.op, std::string(name_of(row.dtype)), row.device, fmt::format("{}", row.cases),
               fmt::format("{}", row.failed), fmt::format("{}", row.unsupported),
               fmt::format("{}", row.unproved),
               compared && is_floating(row.dtype) ? fmt::format("{:.2f}", row.worst_ulp) : "-",
               compared ? fmt::format("{:.0f} %", 100 * row.worst_share) : "-"});
  }
  table.print();
  for (const VerifyRow& row : rows) {
    if (row.problem.empty()) continue;
    print("{}  {} {} on {}: {}\n", row.failed > 0 ? "FAILED " : "refused", row.op, name_of(row.dtype),
          row.device, row.problem);
  }
  print("{} cases, {} failed, {} refused\n", totals.cases, totals.failed, totals.unsupported);
}

Result<Certificate> certificate_of(DeviceList& devices, const std::string& name, const Arguments& arguments,
                                   const StepBegins& begins) {
  const Device* opened = TRY(devices.open(name));
  Certificate certificate;
  certificate.entry = &*std::ranges::find(devices.entries(), opened->name(), &DeviceEntry::name);
  const std::vector<Task> all = TRY(tasks_of(arguments, catalog()));
  std::vector<Task> tasks = TRY(drawn(all, arguments));
  if (certificate.entry->info.dialect.empty()) tasks.clear();
  certificate.selection = {.operators = arguments.text("--op", "*"),
                           .dtypes = arguments.text("--dtype", "all"),
                           .sample = TRY(arguments.integer("--sample", 0, 1, 1 << 30)),
                           .seed = TRY(arguments.integer("--seed", 0, 0, 1 << 30)),
                           .run = std::ssize(tasks),
                           .of = std::ssize(all)};
  certificate.rules = check_rules(devices, *certificate.entry, [&](std::string_view rule) { begins(rule); });
  certificate.operators = TRY(verify_all(devices, {name}, tasks, begins));
  begins("the CPU beside it");
  const auto cpu = verify_all(devices, {"cpu"}, {{find_op("add"), DType::f32}}, begins);
  const bool works = cpu && cpu->at(0).failed == 0 && cpu->at(0).cases > 0;
  certificate.rules.push_back({.rule = "the CPU beside it still works",
                               .verdict = works ? Verdict::ok : Verdict::failed,
                               .problem = cpu ? cpu->at(0).problem : cpu.error().message});
  return certificate;
}

void print_certificate(const Certificate& certificate, const std::string& file) {
  Table table({"rule", "verdict", "problem"});
  for (const RuleResult& rule : certificate.rules)
    table.add({rule.rule, std::string(name_of(rule.verdict)), rule.problem});
  table.print();
  for (const VerifyRow& row : certificate.operators) {
    if (row.failed > 0) print("FAILED {} {}: {}\n", row.op, name_of(row.dtype), row.problem);
  }
  const auto refused = std::ranges::find_if(certificate.operators, [](const VerifyRow& row) {
    return row.cases > 0 && row.cases == row.unsupported;
  });
  const bool none_ran = std::ranges::all_of(
      certificate.operators, [](const VerifyRow& row) { return row.cases == row.unsupported; });
  if (none_ran && refused != certificate.operators.end() && certificate.entry->plugin->tier() > 0)
    print("no operator ran: {} {}: {}\n", refused->op, name_of(refused->dtype), refused->problem);
  print("{}: {}, {} rules, {} of {} operators x dtypes; {}\n", certificate.entry->name,
        certificate.ok() ? "certified" : "NOT certified", certificate.rules.size(), certificate.selection.run,
        certificate.selection.of, file);
}

Result<int> timeout_option(const Arguments& arguments) {
  return static_cast<int>(TRY(arguments.integer("--timeout", 120, 1, 86'400)));
}

/// In a child process: a plugin on trial may end the process that loads it.
Result<int> certify(Context& context, const Arguments& arguments) {
  const std::string file = arguments.text("--certify", "");
  const int timeout = TRY(timeout_option(arguments));
  auto code = guarded(timeout, "the plugin", [&](const StepBegins& begins) -> Result<int> {
    begins("loading the plugin");
    DeviceList* devices = TRY(context.devices(arguments, true));
    const std::vector<std::string> names = devices_to_verify(*devices, context, arguments);
    const bool none = arguments.has(kPluginOption.name) && !arguments.has("--device") &&
                      names == std::vector{context.device_name()};
    if (none)
      return fail(ErrorCode::no_device, "the plugin shows no device that can be used{}{}",
                  devices->problems().empty() ? "" : ": ",
                  devices->problems().empty() ? "" : devices->problems().back().message);
    const Certificate certificate = TRY(certificate_of(*devices, names[0], arguments, begins));
    const Json document = certificate.document();
    TRY(write_file_atomically(file, text_of_certificate(document)));
    context.json() ? print_json(document) : print_certificate(certificate, file);
    return certificate.ok() ? 0 : kAnswerIsNo;
  });
  return code;
}

Result<int> verify(Context& context, const Arguments& arguments, DeviceList& devices,
                   const std::vector<std::string>& names, const StepBegins& begins) {
  const auto operators = operators_on_trial(TRY(context.custom_ops(arguments)));
  const std::vector<Task> tasks = TRY(drawn(TRY(tasks_of(arguments, operators)), arguments));
  const std::vector<VerifyRow> rows = TRY(verify_all(devices, names, tasks, begins));
  Totals totals;
  for (const VerifyRow& row : rows) {
    totals.cases += row.cases;
    totals.failed += row.failed;
    totals.unsupported += row.unsupported;
  }
  context.json() ? print_document(rows, totals) : print_text(rows, totals);
  if (totals.unsupported == totals.cases) {
    print_aside("diji: nothing could be verified: the device refused every case\n");
    return kAnswerIsNo;
  }
  return totals.failed == 0 ? 0 : kAnswerIsNo;
}

/// In a child process, as a plugin: an operator on trial may crash or never return.
Result<int> verify_libraries(Context& context, const Arguments& arguments) {
  const int timeout = TRY(timeout_option(arguments));
  return guarded(timeout, "the library", [&](const StepBegins& begins) -> Result<int> {
    begins(fmt::format("loading {}", fmt::join(arguments.all(kOpLibraryOption.name), ", ")));
    TRY(context.custom_ops(arguments));
    begins("opening the devices");
    DeviceList* devices = TRY(context.devices(arguments));
    return verify(context, arguments, *devices, devices_to_verify(*devices, context, arguments), begins);
  });
}

Result<int> run(Context& context, const Arguments& arguments) {
  if (arguments.has("--certify") && arguments.has(kOpLibraryOption.name))
    return fail(ErrorCode::usage, "--certify is about a device and diji's operators; {} does not go with it",
                kOpLibraryOption.name);
  if (arguments.has("--certify")) return certify(context, arguments);
  if (arguments.has(kOpLibraryOption.name)) {
    for (const std::string_view other : {"--onnx-cases", "--interpreter"}) {
      if (arguments.has(other))
        return fail(ErrorCode::usage, "{} is about diji's operators; {} does not go with it", other,
                    kOpLibraryOption.name);
    }
    return verify_libraries(context, arguments);
  }
  DeviceList* devices = TRY(context.devices(arguments));
  const std::vector<std::string> names = devices_to_verify(*devices, context, arguments);
  if (arguments.has("--onnx-cases")) {
    if (arguments.has("--op") || arguments.has("--dtype")) {
      return fail(ErrorCode::usage,
                  "--onnx-cases runs every case of its folder; --op and --dtype do not go with it");
    }
    return run_onnx_cases(*devices, {.folder = arguments.text("--onnx-cases", ""),
                                     .device = names[0],
                                     .interpreter = TRY(interpreter_option(arguments)),
                                     .json = context.json()});
  }
  if (arguments.has("--interpreter"))
    return fail(ErrorCode::usage, "--interpreter goes with --onnx-cases: elsewhere it is the reference");
  return verify(context, arguments, *devices, names, [](std::string_view) {});
}

}  // namespace

constexpr Verb kVerifyVerb = {
    .name = "verify",
    .summary = "every operator against its float64 reference on normal and boundary inputs",
    .example = "verify --op 'reduce_*' --dtype f32",
    .options = kOptions,
    .run = run,
};

}  // namespace diji::tools
