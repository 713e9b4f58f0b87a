// Rates of matrix products and convolutions beside the machine's own peak of multiply-adds, by hand:
// build/release/bin/bench_contractions [THREADS [FILTER [DEVICE...]]]. Devices take turns, and the later ones
// are also told as a share of the first. It decides no test.
#include "graph/text.h"
#include "ops/catalog.h"
#include "ops/samples.h"
#include "runtime/self_check.h"
#include "runtime/session.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace diji {
namespace {

struct Case {
  std::string name;
  std::string text;  ///< of a graph with inputs a and b
  double flops = 0;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, ", "));
}

Case matmul(std::vector<std::int64_t> batch, std::int64_t m, std::int64_t k, std::int64_t n,
            bool transposed) {
  auto a = batch, b = batch;
  double flops = 2.0 * static_cast<double>(m * k * n);
  for (const std::int64_t size : batch) flops *= static_cast<double>(size);
  a.insert(a.end(), {m, k});
  if (transposed)
    b.insert(b.end(), {n, k});
  else
    b.insert(b.end(), {k, n});
  std::vector<std::int64_t> batch_axes;
  for (std::size_t i = 0; i < batch.size(); ++i) batch_axes.push_back(static_cast<std::int64_t>(i));
  const auto last = static_cast<std::int64_t>(batch.size());
  const std::string text = fmt::format(
      "graph \"matmul\" {{\n  input %a \"a\" : f32[{}]\n  input %b \"b\" : f32[{}]\n"
      "  %y = prim.dot_general(%a, %b) {{lhs_batch = ints[{}], lhs_contracting = ints[{}], rhs_batch = "
      "ints[{}], "
      "rhs_contracting = ints[{}]}}\n  output \"y\" = %y\n}}\n",
      shape_text(a), shape_text(b), shape_text(batch_axes), last + 1, shape_text(batch_axes),
      transposed ? last + 1 : last);
  return {fmt::format("matmul {}{}x{}x{}{}", batch.empty() ? "" : shape_text(batch) + " x ", m, k, n,
                      transposed ? " transposed" : ""),
          text, flops};
}

Case convolution(std::int64_t batch, std::int64_t channels, std::int64_t size, std::int64_t filters,
                 std::int64_t kernel, std::int64_t stride, std::int64_t groups) {
  const std::int64_t pad = kernel / 2, out = (size + 2 * pad - kernel) / stride + 1;
  const std::string text = fmt::format(
      "graph \"conv\" {{\n  input %a \"a\" : f32[{}, {}, {}, {}]\n  input %b \"b\" : f32[{}, {}, {}, {}]\n"
      "  %y = conv(%a, %b) {{group = {}, pads = ints[{}, {}, {}, {}], strides = ints[{}, {}]}}\n"
      "  output \"y\" = %y\n}}\n",
      batch, channels, size, size, filters, channels / groups, kernel, kernel, groups, pad, pad, pad, pad,
      stride, stride);
  return {fmt::format("conv {}x{} {}x{} {}->{} stride {} groups {} batch {}", kernel, kernel, size, size,
                      channels, filters, stride, groups, batch),
          text, 2.0 * static_cast<double>(batch * out * out * filters * channels / groups * kernel * kernel)};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t size : {256, 512, 1024, 2048, 4096})
    all.push_back(matmul({}, size, size, size, false));
  all.push_back(matmul({}, 1000, 1000, 1000, false));
  all.push_back(matmul({}, 1024, 1040, 1040, false));
  all.push_back(matmul({}, 128, 768, 768, false));
  all.push_back(matmul({}, 128, 768, 3072, false));
  all.push_back(matmul({}, 128, 3072, 768, false));
  all.push_back(matmul({}, 32, 768, 3072, false));
  all.push_back(matmul({}, 8, 768, 3072, false));
  all.push_back(matmul({}, 1, 4096, 4096, false));
  all.push_back(matmul({}, 4, 4096, 4096, false));
  all.push_back(matmul({}, 1, 4096, 4096, true));
  all.push_back(matmul({}, 1024, 1024, 1024, true));
  all.push_back(matmul({12}, 512, 64, 512, false));
  all.push_back(matmul({12}, 512, 64, 512, true));
  all.push_back(matmul({12}, 512, 512, 64, false));
  for (const std::int64_t batch : {1, 8}) {
    all.push_back(convolution(batch, 3, 224, 64, 7, 2, 1));
    all.push_back(convolution(batch, 64, 56, 64, 1, 1, 1));
    all.push_back(convolution(batch, 64, 56, 64, 3, 1, 1));
    all.push_back(convolution(batch, 64, 56, 256, 1, 1, 1));
    all.push_back(convolution(batch, 256, 56, 64, 1, 1, 1));
    all.push_back(convolution(batch, 128, 56, 128, 3, 2, 1));
    all.push_back(convolution(batch, 128, 28, 128, 3, 1, 1));
    all.push_back(convolution(batch, 256, 56, 512, 1, 2, 1));
    all.push_back(convolution(batch, 512, 28, 128, 1, 1, 1));
    all.push_back(convolution(batch, 256, 14, 256, 3, 1, 1));
    all.push_back(convolution(batch, 256, 14, 1024, 1, 1, 1));
    all.push_back(convolution(batch, 512, 7, 512, 3, 1, 1));
    all.push_back(convolution(batch, 2048, 7, 512, 1, 1, 1));
    all.push_back(convolution(batch, 32, 112, 32, 3, 1, 32));
    all.push_back(convolution(batch, 96, 112, 96, 3, 2, 96));
    all.push_back(convolution(batch, 576, 14, 576, 3, 1, 576));
    all.push_back(convolution(batch, 128, 56, 128, 3, 1, 32));
  }
  return all;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// One case on one device, and what was seen of it.
struct Runner {
  std::unique_ptr<Session> session;
  std::map<std::string, HostTensor> inputs;
  std::vector<double> rates, peaks;
  double spent_ms = 0;

  static Result<Runner> of(DeviceList& devices, const Case& one, const std::string& device) {
    Runner runner{.session = TRY(Session::of(devices, TRY(parse(one.text, find_op)), {.device = device}))};
    const Graph& graph = runner.session->graph();
    for (const Port& port : graph.inputs()) {
      const Type& type = graph.type(port.value);
      runner.inputs.emplace(port.name, sample_tensor(type.dtype, TRY(evaluate(type.shape, {})), Fill::normal,
                                                     runner.inputs.size() + 1));
    }
    TRY(runner.session->run(runner.inputs));
    return runner;
  }
  Result<void> turn(CompileCache& cache, double flops) {
    RunStats stats;
    TRY(session->run(inputs, &stats, {.timed = true}));
    double milliseconds = 0;
    for (const auto& kernel : stats.kernels) milliseconds += kernel.milliseconds;
    spent_ms += milliseconds;
    rates.push_back(flops / (milliseconds * 1e6));
    if (peaks.size() < 5) peaks.push_back(TRY(measure_peak_gflops(session->device(), cache)));
    return {};
  }
};

Result<void> measure(DeviceList& devices, CompileCache& cache, const Case& one,
                     const std::vector<std::string>& names) {
  std::vector<Runner> runners;
  for (const std::string& name : names) runners.push_back(TRY(Runner::of(devices, one, name)));
  for (int i = 0; i < 5 || (runners[0].spent_ms < 100 && i < 40); ++i) {
    for (Runner& runner : runners) TRY(runner.turn(cache, one.flops));
  }
  for (const Runner& runner : runners) {
    const double rate = median(runner.rates), peak = median(runner.peaks), first = median(runners[0].rates);
    std::printf("%-58s %-9s %8.1f GFLOP/s  %5.1f %% of %.0f  %zu kernel(s)  %.2f\n", one.name.c_str(),
                runner.session->device().name().c_str(), rate, 100 * rate / peak, peak,
                runner.session->executable().programs[0].segments[0].steps.size(), rate / first);
  }
  std::fflush(stdout);
  return {};
}

int run(int argc, char** argv) {
  DeviceList devices(built_in_plugins(), argc > 1 ? std::atoi(argv[1]) : 1);
  std::vector<std::string> names(argv + std::min(argc, 3), argv + argc);
  if (names.empty()) names.emplace_back("cpu");
  CompileCache cache;
  for (const Case& one : cases()) {
    if (argc > 2 && one.name.find(argv[2]) == std::string::npos) continue;
    const auto done = measure(devices, cache, one, names);
    if (!done) std::printf("%s: %s\n", one.name.c_str(), done.error().message.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace diji

int main(int argc, char** argv) { return diji::run(argc, argv); }
