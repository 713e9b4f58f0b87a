// `diji check`: is a device visible, is a matmul right and how fast, an all-reduce too, and what versions are
// these.
#include "runtime/self_check.h"
#include "tools/context.h"
#include "tools/devices.h"
#include "tools/launched_ranks.h"
#include "tools/output.h"

#include <gnu/libc-version.h>

#include <array>

namespace diji::tools {
namespace {

constexpr std::int64_t kSizeMax = 65536;  // three matrices of 16 GiB
constexpr std::int64_t kWorldSizeMax = 1024;

constexpr std::array kOptions = {
    OptionDef{"--size", "N", "rows and columns of the matmul (default: 4096)"},
    OptionDef{"--world-size", "N", "ranks of the all-reduce (default: 8)"},
    kPluginOption,
};

#if defined(__clang__)
constexpr std::string_view kCompiler = "clang " __clang_version__;
#else
constexpr std::string_view kCompiler = "gcc " __VERSION__;
#endif

struct Version {
  std::string name, value;
};

// The CPU plugin writes the LLVM it compiles with into its fingerprint: "... llvm-19".
std::string llvm_of(const DeviceInfo& info) {
  constexpr std::string_view kMark = "llvm-";
  const std::size_t at = info.fingerprint.rfind(kMark);
  if (at == std::string::npos) return "";
  const std::string rest = info.fingerprint.substr(at + kMark.size());
  return rest.substr(0, rest.find_first_not_of("0123456789"));
}

std::vector<Version> versions_of(const Device& device) {
  std::string compiler(kCompiler);
  compiler.erase(compiler.find_last_not_of(' ') + 1);
  return {{"diji", DIJI_VERSION},
          {"llvm", llvm_of(device.info())},
          {"plugin_abi", fmt::format("{}.{}", DIJI_DEVICE_ABI_MAJOR, DIJI_DEVICE_ABI_MINOR)},
          {"compiler", compiler},
          {"libc", gnu_get_libc_version()}};
}

struct AllReduceCheck {
  std::int64_t world_size = 0;
  double busbw_gbps = 0;
  bool ok = false;
  std::string problem;  ///< empty where it ran
};

// Ranks of this very program: 4 MiB of f32, every element compared.
AllReduceCheck check_all_reduce(std::int64_t world_size) {
  AllReduceCheck check{.world_size = world_size};
  LaunchOptions options;
  options.ranks = static_cast<int>(world_size);
  options.timeout_s = 30;
  options.capture = true;
  options.command = {"/proc/self/exe", "bench", "collective", "all_reduce", "--bytes", "4M",
                     "--seconds",      "0.2",   "--check",    "--json"};
  const auto job = LaunchedRanks::start(options);
  if (!job) {
    check.problem = job.error().message;
    return check;
  }
  const int code = (*job)->wait();
  const Json document = Json::parse((*job)->output(), nullptr, false);
  if (document.is_discarded() || !document.contains("rows")) {
    check.problem = fmt::format("its ranks ended with exit code {}", code);
    return check;
  }
  const Json& row = document["rows"][0];
  check.busbw_gbps = row["busbw_gbps"].get<double>();
  check.ok = code == 0 && row["wrong"] == 0;
  return check;
}

Json document_of(DeviceList& devices, const MatmulCheck& matmul, const AllReduceCheck& all_reduce,
                 const std::vector<Version>& versions) {
  Json version_object = Json::object();
  for (const Version& version : versions) {
    version_object[version.name] = version.value.empty() ? Json() : Json(version.value);
  }
  return {{"devices", json_of_devices(devices)},
          {"matmul",
           {{"size", matmul.size},
            {"gflops", matmul.gflops},
            {"share_of_peak", matmul.share_of_peak},
            {"max_error", matmul.max_error},
            {"ok", matmul.ok}}},
          {"all_reduce",
           {{"world_size", all_reduce.world_size},
            {"busbw_gbps", all_reduce.problem.empty() ? Json(all_reduce.busbw_gbps) : Json()},
            {"ok", all_reduce.ok},
            {"problem", all_reduce.problem.empty() ? Json() : Json(all_reduce.problem)}}},
          {"versions", version_object}};
}

void print_text(DeviceList& devices, const Device& device, const MatmulCheck& matmul,
                const AllReduceCheck& all_reduce, const std::vector<Version>& versions) {
  print_devices(devices);
  print(
      "\nmatmul      {} on {}: {} x {} f32 at {:.1f} GFLOP/s, {:.0f} % of the {:.1f} that multiply-adds "
      "reach here\n",
      matmul.ok ? "right" : "WRONG", device.name(), matmul.size, matmul.size, matmul.gflops,
      100 * matmul.share_of_peak, matmul.peak_gflops);
  print("            largest error {:.2g} on {} rows against float64, {:.0f} % of the proven bound\n",
        matmul.max_error, matmul.rows_checked, 100 * matmul.max_share_of_bound);
  if (all_reduce.problem.empty()) {
    print("all-reduce  {} on {} ranks: 4 MiB f32 at {:.2f} GB/s (bus)\n", all_reduce.ok ? "right" : "WRONG",
          all_reduce.world_size, all_reduce.busbw_gbps);
  } else {
    print("all-reduce  FAILED on {} ranks: {}\n", all_reduce.world_size, all_reduce.problem);
  }
  print("versions    ");
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const std::string& value = versions[i].value;
    print("{}{} {}", i == 0 ? "" : ", ", versions[i].name, value.empty() ? "-" : value);
  }
  print("\n");
}

Result<int> run(Context& context, const Arguments& arguments) {
  const std::int64_t size = TRY(arguments.integer("--size", 4096, 1, kSizeMax));
  const std::int64_t world_size = TRY(arguments.integer("--world-size", 8, 1, kWorldSizeMax));
  Device* device = TRY(context.device(arguments));
  DeviceList& devices = *TRY(context.devices(arguments));
  CompileCache cache;
  const MatmulCheck matmul = TRY(check_matmul(*device, cache, size));
  const AllReduceCheck all_reduce = check_all_reduce(world_size);
  const std::vector<Version> versions = versions_of(*device);
  if (context.json()) {
    print_json(document_of(devices, matmul, all_reduce, versions));
  } else {
    print_text(devices, *device, matmul, all_reduce, versions);
  }
  if (!matmul.ok) print_aside("diji: the matmul is wrong: its largest error is {:.3g}\n", matmul.max_error);
  return matmul.ok && all_reduce.ok ? 0 : kAnswerIsNo;
}

}  // namespace

constexpr Verb kCheckVerb = {
    .name = "check",
    .summary = "is a device visible, are a matmul and an all-reduce right, and how fast",
    .example = "check --size 512",
    .options = kOptions,
    .run = run,
};

}  // namespace diji::tools
