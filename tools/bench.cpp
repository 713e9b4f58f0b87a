// `diji bench`: how fast models, products and operators are, beside other engines and beside another day.
#include "base/files.h"
#include "base/log.h"
#include "ops/catalog.h"
#include "tools/bench_cases.h"
#include "tools/bench_collective.h"
#include "tools/output.h"

#include <fnmatch.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace diji::tools {
namespace {

constexpr std::array kOwnOptions = {
    OptionDef{"--size", "M,N,K", "of gemm: rows, columns, depth (default: four sizes)", true},
    OptionDef{"--op", "GLOB", "of op: the operators whose name matches, such as 'reduce_*' (default: all)"},
    OptionDef{"--dtype", "D", "of gemm, op and collective (default: f32)"},
    OptionDef{"--rounds", "N", "blocks of about 0.1 s that are timed (default: 7)"},
    OptionDef{
        "--against", "FILE|peers",
        "exit code 1 where a row is worse than in FILE, in value and in share of the limit, by more than "
        "both spreads together and 5 %; peers: in turns with onnxruntime (model, op), numpy and torch (gemm, "
        "op: whole calls, beside diji's kernels)",
        true},
    OptionDef{"--python", "FILE",
              "the interpreter that has the peers (default: .venv/bin/python, else python3)"},
    OptionDef{"--save", "FILE", "write the JSON document there"},
    OptionDef{"--format", "table|json|csv|md", "how rows are printed (default: table)"},
};

constexpr auto kOptions = [] {
  std::array<OptionDef, kOwnOptions.size() + kCollectiveOptions.size()> options;
  std::ranges::copy(kCollectiveOptions, std::ranges::copy(kOwnOptions, options.begin()).out);
  return options;
}();

constexpr std::array<std::string_view, 3> kKinds = {"model", "gemm", "op"};
constexpr std::array<std::string_view, 4> kFormats = {"table", "json", "csv", "md"};
constexpr std::array<std::string_view, 4> kSizes = {"256,256,256", "1024,1024,1024", "32,3072,768",
                                                    "1,4096,4096"};
constexpr std::int64_t kSizeMax = 1 << 20;

Result<std::array<std::int64_t, 3>> size_of(std::string_view word) {
  std::array<std::int64_t, 3> size{};
  const char* at = word.data();
  const char* const end = word.data() + word.size();
  for (std::size_t i = 0; i < size.size(); ++i) {
    const auto [rest, problem] = std::from_chars(at, end, size[i]);
    const bool ends_well = i + 1 == size.size() ? rest == end : rest != end && *rest == ',';
    if (problem != std::errc() || !ends_well || size[i] < 1 || size[i] > kSizeMax)
      return fail(ErrorCode::usage, "--size: '{}' is not M,N,K, each from 1 to {}", word, kSizeMax);
    at = rest + 1;
  }
  return size;
}

Result<DType> dtype_of(const Arguments& arguments) {
  constexpr std::array kChoices = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64};
  std::vector<std::string_view> names;
  for (const DType dtype : kChoices) names.push_back(name_of(dtype));
  return kChoices[TRY(arguments.choice("--dtype", names, 0))];
}

// Options of other kinds are mistakes.
Result<void> check_options(const Arguments& arguments, std::size_t kind) {
  constexpr std::array<std::array<std::string_view, 2>, 5> kBelongs = {{{"--size", "gemm"},
                                                                        {"--op", "op"},
                                                                        {"--dtype", "gemm op"},
                                                                        {"--dim", "model"},
                                                                        {"--strict", "model"}}};
  for (const auto& [option, kinds] : kBelongs) {
    if (arguments.has(option) && kinds.find(kKinds[kind]) == std::string_view::npos)
      return fail(ErrorCode::usage, "{} does not go with bench {}", option, kKinds[kind]);
  }
  const std::size_t words = arguments.operands().size();
  if (kind == 0 && words < 2) return fail(ErrorCode::usage, "diji bench model needs MODEL...");
  if (kind != 0 && words > 1)
    return fail(ErrorCode::usage, "'{}' is one word too many", arguments.operands()[1]);
  return {};
}

Result<std::vector<BenchRow>> model_rows(const BenchRequest& request, const Arguments& arguments) {
  std::vector<BenchRow> rows;
  for (std::size_t i = 1; i < arguments.operands().size(); ++i)
    rows.push_back(TRY(bench_model(request, arguments.operands()[i])));
  return rows;
}

Result<std::vector<BenchRow>> gemm_rows(const BenchRequest& request, const Arguments& arguments) {
  const DType dtype = TRY(dtype_of(arguments));
  std::vector<std::string> words = arguments.all("--size");
  if (words.empty()) words.assign(kSizes.begin(), kSizes.end());
  std::vector<std::array<std::int64_t, 3>> sizes;
  for (const std::string& word : words) sizes.push_back(TRY(size_of(word)));
  std::vector<BenchRow> rows;
  for (const auto& size : sizes) rows.push_back(TRY(bench_gemm(request, size, dtype)));
  return rows;
}

Result<std::vector<BenchRow>> op_rows(const BenchRequest& request, const Arguments& arguments) {
  const DType dtype = TRY(dtype_of(arguments));
  const std::string glob = arguments.text("--op", "*");
  std::vector<BenchRow> rows;
  std::vector<std::string> names;
  std::string left_out;
  bool matches = false;
  for (const OpDef* op : catalog()) {
    names.emplace_back(op->name);
    if (::fnmatch(glob.c_str(), names.back().c_str(), 0) != 0) continue;
    matches = true;
    auto row = bench_op(request, *op, dtype);
    if (row) {
      rows.push_back(*std::move(row));
    } else {
      left_out += fmt::format("{}{}", left_out.empty() ? "" : ", ", op->name);
    }
  }
  if (!matches)
    return fail(ErrorCode::usage, "--op: no operator matches '{}'{}", glob, did_you_mean(glob, names));
  // Without a sample of this dtype, a kernel or a result on it.
  if (!left_out.empty()) print_aside("not measured: {}\n", left_out);
  return rows;
}

Json machine_of(const Device& device, int threads, const MachineLimits& limits) {
  utsname system{};
  ::uname(&system);
  const auto rate = [](double value) { return value > 0 ? Json(value) : Json(); };
  return {{"cpu", device.info().name},
          {"device", device.name()},
          {"threads", threads},
          {"memory_bytes", device.info().memory_bytes},
          {"features", device.info().features},
          {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
          {"diji", DIJI_VERSION},
          {"peak_gflops", rate(limits.last_peak_gflops)},
          {"copy_gbps", rate(limits.largest_copy_gbps)}};
}

// 1 where a row is worse.
int tell(const Against& against, const std::string& file) {
  if (against.other_machine)
    print_aside("diji: {}: it was measured on another machine or with other threads\n", file);
  if (!against.missing.empty())
    print_aside("diji: {}: not measured now: {}\n", file, fmt::join(against.missing, ", "));
  for (const Regression& one : against.regressions) {
    print_aside("diji: {}: {:.4g}, was {:.4g}: {:.1f} % worse, noise is {:.1f} %\n", one.name, one.now,
                one.before, 100 * one.worse, 100 * one.noise);
  }
  return against.regressions.empty() ? 0 : kAnswerIsNo;
}

// What is no number: peers that are not there, outputs that are not finite (1).
int tell(const std::vector<BenchRow>& rows) {
  int code = 0;
  for (const BenchRow& row : rows) {
    for (const PeerRow& peer : row.peers) {
      if (!peer.absent.empty()) print_aside("{}: {} is absent: {}\n", row.name, peer.name, peer.absent);
    }
    if (row.not_finite.empty()) continue;
    print_aside("diji: {}: {}\n", row.name, row.not_finite);
    code = kAnswerIsNo;
  }
  return code;
}

Result<int> run(Context& context, const Arguments& arguments) {
  if (arguments.operands()[0] == "collective")
    return bench_collective(arguments, std::span(arguments.operands()).subspan(1), context.json());
  const std::size_t kind = TRY(find_choice("bench", arguments.operands()[0], kKinds));
  TRY(check_options(arguments, kind));
  const std::size_t chosen = TRY(arguments.choice("--format", kFormats, context.json() ? 1 : 0));
  const auto format = static_cast<BenchFormat>(chosen);
  if (context.json() && format != BenchFormat::json)
    return fail(ErrorCode::usage, "--json and --format {} are two answers", kFormats[chosen]);
  // Read before anything is measured, so that a wrong file is told at once.
  std::vector<std::pair<std::string, Bench>> saved;
  bool with_peers = false;
  for (const std::string& word : arguments.all("--against")) {
    with_peers |= word == "peers";
    if (word != "peers") saved.emplace_back(word, TRY(read_saved(word)));
  }
  ModelOptions model = TRY(model_options(context, arguments));
  Device* device = TRY(context.device(arguments));
  MachineLimits limits(*device);
  const BenchRequest request{
      .devices = *TRY(context.devices(arguments)),
      .model = std::move(model),
      .threads = context.threads(),
      .rounds = static_cast<int>(TRY(arguments.integer("--rounds", 7, 1, 1000))),
      .python = with_peers ? find_python(arguments.text("--python", "")) : "",
      .limits = limits,
  };
  constexpr std::array kRows = {model_rows, gemm_rows, op_rows};
  Bench bench{.rows = TRY(kRows[kind](request, arguments))};
  bench.machine = machine_of(*device, context.threads(), limits);
  std::vector<Against> against;
  for (const auto& [file, before] : saved) against.push_back(TRY(compare(bench, before, file)));
  print(bench, format);
  if (const std::string file = arguments.text("--save", ""); !file.empty())
    TRY(write_file_atomically(file, json_of(bench).dump(1) + "\n"));
  int code = tell(bench.rows);
  for (std::size_t i = 0; i < saved.size(); ++i) code = std::max(code, tell(against[i], saved[i].first));
  return code;
}

}  // namespace

constexpr Verb kBenchVerb = {
    .name = "bench",
    .summary =
        "how fast models, products of matrices and operators are: medians of blocks, their spread, and "
        "the share of what this machine can do (multiply-adds at their peak, bytes at the rate of a copy)",
    .example = "bench model model.onnx --dim batch=4 --rounds 3 --against peers",
    .operands = {"model MODEL...|gemm|op|collective OP",
                 "what to measure: whole calls of models, the kernels of matmul, "
                 "the kernels of every operator on 1024 x 1024 or its largest sample",
                 1, Operands::kAnyCount},
    .options = kOptions,
    .shared_options = kModelOptions,
    .run = run,
};

}  // namespace diji::tools
