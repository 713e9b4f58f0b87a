// Each row: inputs that are made up, turns with the peers, a share of what the machine could do.
#include "tools/bench_cases.h"

#include "base/files.h"
#include "formats/node_model.h"
#include "runtime/self_check.h"
#include "tools/tensor_inputs.h"
#include "tools/tensor_outputs.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <filesystem>

namespace diji::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Peers = std::vector<std::unique_ptr<Peer>>;

/// A folder that goes with the object.
class ScratchFolder {
 public:
  static Result<std::unique_ptr<ScratchFolder>> create() {
    std::error_code status;
    std::string pattern = (std::filesystem::temp_directory_path(status) / "diji-bench-XXXXXX").string();
    if (status || ::mkdtemp(pattern.data()) == nullptr)
      return fail(ErrorCode::io, "a folder for the peers' inputs: {} cannot be made", pattern);
    return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(pattern)));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Of whole calls.
BenchBlock calls_of(Session& session, const NamedTensors& inputs) {
  return [&session, &inputs](int runs) -> Result<std::vector<double>> {
    TRY(session.run(inputs));
    std::vector<double> seconds;
    for (int i = 0; i < runs; ++i) {
      const auto start = Clock::now();
      TRY(session.run(inputs));
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    return seconds;
  };
}

// Of the kernels of each run.
BenchBlock kernels_of(Session& session, const NamedTensors& inputs) {
  return [&session, &inputs](int runs) -> Result<std::vector<double>> {
    std::vector<double> seconds;
    for (int i = 0; i <= runs; ++i) {
      RunStats stats;
      TRY(session.run(inputs, &stats, {.timed = true}));
      double ms = 0;
      for (const auto& kernel : stats.kernels) ms += kernel.milliseconds;
      if (i > 0) seconds.push_back(ms / 1e3);
    }
    return seconds;
  };
}

Result<std::unique_ptr<Session>> open(const BenchRequest& request, OperatorCase& one) {
  SessionOptions options = request.model.session;
  return Session::of(request.devices, std::move(one.graph), options);
}

// "NAME=FILE" of each input.
std::vector<std::string> written_inputs(const Graph& graph, const NamedTensors& inputs,
                                        const std::string& folder) {
  std::vector<HostTensor> tensors;
  for (const Port& port : graph.inputs()) tensors.push_back(inputs.at(port.name));
  const auto files = write_outputs(folder, graph.inputs(), tensors);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < files.size(); ++i)
    words.push_back(fmt::format("{}={}", graph.inputs()[i].name, files[i].value_or("")));
  return words;
}

// ONNX Runtime with the operator as a model of one node; NumPy and torch with what they call it.
Result<Peers> peers_of(const BenchRequest& request, const OpDef& op, const OperatorCase& one,
                       const std::string& folder) {
  const std::string threads = fmt::format("{}", request.threads);
  const std::vector<std::string> inputs = written_inputs(one.graph, one.inputs, folder);
  Peers peers;
  const auto add = [&](std::vector<std::string> words) {
    words.insert(words.end(), inputs.begin(), inputs.end());
    peers.push_back(std::make_unique<Peer>(request.python, std::move(words)));
  };
  if (const auto model = node_model(one.graph)) {
    const std::string path = folder + "/node.onnx";
    TRY(write_file_atomically(path, std::span<const std::byte>(*model)));
    add({"onnxruntime", threads, path});
  }
  // Attributes that are not the default are words of diji and ONNX.
  const bool plain = one.graph.nodes().size() == 1 && one.graph.nodes()[0].attributes.empty() &&
                     one.inputs.size() == one.graph.nodes()[0].inputs.size();
  for (const std::string_view engine : {"numpy", "torch"}) {
    if (plain) add({std::string(engine), threads, "op", std::string(op.name)});
  }
  return peers;
}

}  // namespace

Result<double> MachineLimits::peak_gflops() {
  return last_peak_gflops = TRY(measure_peak_gflops(device_, cache_));
}

Result<double> MachineLimits::copy_gbps(double bytes) {
  constexpr std::int64_t kMin = 1 << 16, kMax = 1 << 28;
  const auto wanted = static_cast<std::int64_t>(std::min(bytes, 1.0 * kMax));
  const auto size =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(wanted, kMin))));
  const auto known = copies_.find(size);
  if (known != copies_.end()) return known->second;
  const double rate = TRY(measure_copy_gbps(device_, cache_, size));
  copies_.emplace(size, rate);
  largest_copy_gbps = copies_.rbegin()->second;
  return rate;
}

Result<double> MachineLimits::seconds(const RunWork& work, bool counts_flops) {
  const double by_bytes = work.bytes / (TRY(copy_gbps(work.bytes)) * 1e9);
  return counts_flops ? std::max(by_bytes, work.flops / (TRY(peak_gflops()) * 1e9)) : by_bytes;
}

Result<BenchRow> bench_model(const BenchRequest& request, const std::string& path) {
  const auto session = TRY(Session::open(request.devices, path, request.model.session));
  InputOptions options{.dims = request.model.dims};
  for (const Port& port : session->graph().inputs())
    options.sources.push_back({.name = port.name, .kind = InputSource::Kind::random});
  const NamedTensors inputs = TRY(make_inputs(session->graph(), options));
  const RunWork work = TRY(work_of(*session, inputs));
  Peers peers;
  std::unique_ptr<ScratchFolder> folder;
  if (!request.python.empty()) {
    folder = TRY(ScratchFolder::create());
    std::vector<std::string> words = {"onnxruntime", fmt::format("{}", request.threads), path};
    for (std::string& word : written_inputs(session->graph(), inputs, folder->path()))
      words.push_back(std::move(word));
    peers.push_back(std::make_unique<Peer>(request.python, std::move(words)));
  }
  const Turns turns = TRY(take_turns(calls_of(*session, inputs), peers, request.rounds));
  BenchRow row{.name = std::filesystem::path(path).filename().string(), .unit = "ms"};
  for (const auto& [name, size] : request.model.dims) row.name += fmt::format(" {}={}", name, size);
  if (request.model.strict) row.not_finite = find_not_finite(*session, inputs, TRY(session->run(inputs)));
  fill(row, turns, peers, [](double seconds) { return 1e3 * seconds; });
  row.share_of_limit = TRY(request.limits.seconds(work, true)) * 1e3 / row.value;
  return row;
}

Result<BenchRow> bench_gemm(const BenchRequest& request, std::array<std::int64_t, 3> size, DType dtype) {
  const auto [m, n, k] = size;
  OperatorCase one = TRY(matmul_case(dtype, m, n, k));
  const auto session = TRY(open(request, one));
  const RunWork work = TRY(work_of(*session, one.inputs));
  Peers peers;
  for (const std::string_view engine : {"numpy", "torch"}) {
    if (request.python.empty()) break;
    std::vector<std::string> words = {std::string(engine), fmt::format("{}", request.threads)};
    for (const std::int64_t side : size) words.push_back(fmt::format("{}", side));
    words.emplace_back(name_of(dtype));
    peers.push_back(std::make_unique<Peer>(request.python, std::move(words)));
  }
  const Turns turns = TRY(take_turns(kernels_of(*session, one.inputs), peers, request.rounds));
  BenchRow row{.name = fmt::format("gemm {} {}x{}x{}", name_of(dtype), m, n, k), .unit = "GFLOP/s"};
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  fill(row, turns, peers, [&](double seconds) { return flops / seconds / 1e9; });
  const double limit = TRY(request.limits.seconds(work, true));
  if (dtype == DType::f32) row.share_of_limit = row.value / (flops / limit / 1e9);  // the peak is that of f32
  return row;
}

Result<BenchRow> bench_op(const BenchRequest& request, const OpDef& op, DType dtype) {
  OperatorCase one = TRY(benchmark_case(op, dtype));
  const OperatorCase written = one;
  const auto session = TRY(open(request, one));
  const RunWork work = TRY(work_of(*session, one.inputs));
  if (work.bytes == 0) return fail(ErrorCode::unsupported, "{} needs no kernel", op.name);
  Peers peers;
  std::unique_ptr<ScratchFolder> folder;
  if (!request.python.empty()) {
    folder = TRY(ScratchFolder::create());
    peers = TRY(peers_of(request, op, written, folder->path()));
  }
  const Turns turns = TRY(take_turns(kernels_of(*session, one.inputs), peers, request.rounds));
  BenchRow row{.name = fmt::format("{} {}", op.name, one.sizes), .unit = "us"};
  fill(row, turns, peers, [](double seconds) { return 1e6 * seconds; });
  row.share_of_limit = TRY(request.limits.seconds(work, dtype == DType::f32)) * 1e6 / row.value;
  return row;
}

}  // namespace diji::tools
