// The matmul of `diji check`.
#include "runtime/self_check.h"

#include "graph/builder.h"
#include "ops/samples.h"
#include "runtime/compiler.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace diji {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// One graph for every size, as models have it.
Graph matmul_graph() {
  Graph graph;
  graph.name = "matmul";
  const Dim m = Dim::symbol("M"), n = Dim::symbol("N"), k = Dim::symbol("K");
  const ValueId a = graph.add_input("a", {DType::f32, {m, k}});
  const ValueId b = graph.add_input("b", {DType::f32, {k, n}});
  Builder builder(graph);
  graph.add_output("y", builder.dot_general(a, b, {.lhs_contracting = {1}, .rhs_contracting = {0}}));
  return graph;
}

// Rows spread over the matrix: the first, the last and some between.
std::vector<std::int64_t> sampled_rows(std::int64_t size) {
  constexpr std::int64_t kRows = 16;
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < std::min(size, kRows); ++i)
    rows.push_back(size <= kRows ? i : i * (size - 1) / (kRows - 1));
  return rows;
}

void compare_rows(MatmulCheck& check, const HostTensor& a, const HostTensor& b, const HostTensor& y) {
  const auto size = static_cast<std::size_t>(check.size);
  const auto av = a.values<float>(), bv = b.values<float>(), yv = y.values<float>();
  const double u = std::ldexp(1.0, -24),
               gamma = static_cast<double>(size) * u / (1 - static_cast<double>(size) * u);
  for (const std::int64_t row : sampled_rows(check.size)) {
    std::vector<double> sums(size, 0.0), magnitudes(size, 0.0);
    for (std::size_t k = 0; k < size; ++k) {
      const double left = av[static_cast<std::size_t>(row) * size + k];
      for (std::size_t j = 0; j < size; ++j) {
        sums[j] += left * bv[k * size + j];
        magnitudes[j] += std::fabs(left * bv[k * size + j]);
      }
    }
    for (std::size_t j = 0; j < size; ++j) {
      const double error = std::fabs(yv[static_cast<std::size_t>(row) * size + j] - sums[j]);
      const double bound = gamma * magnitudes[j] + std::ldexp(1.0, -149);
      check.max_error = std::max(check.max_error, error);
      // A NaN compares false with everything, so it is asked for by name.
      check.max_share_of_bound =
          std::isnan(error) ? HUGE_VAL : std::max(check.max_share_of_bound, error / bound);
    }
    ++check.rows_checked;
  }
  check.ok = check.max_share_of_bound <= 1;
}

}  // namespace

Result<double> measure_peak_gflops(Device& device, CompileCache& cache) {
  const PeakKernel peak = TRY(peak_kernel(traits_of(device)));
  KernelBuilder kernels;
  const std::string entry = kernels.add(peak.kernel).entry;
  const auto modules = TRY(build_modules(kernels.modules(), device, cache)).modules;
  Stream stream = TRY(device.new_stream());
  const std::int64_t grid = 8 * device.threads().threads();
  const Buffer memory = TRY(device.default_pool().allocate(static_cast<std::uint64_t>((grid + 2) * 256)));
  const Buffer error_word = TRY(device.default_pool().allocate(8));
  const std::vector<float> operands(64, 0.5F);
  TRY(stream.copy_to_device(memory.place(), std::as_bytes(std::span(operands))));
  std::int64_t rounds = 20000;
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) {
    std::vector<std::int64_t> sizes;
    for (const Dim& size : peak.kernel.sizes) sizes.push_back(TRY(size.evaluate({{"rounds", rounds}})));
    sizes.push_back(0);
    const diji_place place = memory.place();
    diji_launch launch{};
    launch.struct_size = sizeof(launch);
    launch.entry = entry.c_str();
    launch.grid = grid;
    launch.places = &place;
    launch.place_count = 1;
    launch.size_count = static_cast<std::uint32_t>(sizes.size());
    launch.sizes = sizes.data();
    launch.error_word = error_word.place();
    const auto start = Clock::now();
    TRY((*modules)[0].launch(stream, launch));
    TRY(stream.sync());
    const double flops =
        static_cast<double>(peak.flops_per_round) * static_cast<double>(rounds) * static_cast<double>(grid);
    rates.push_back(flops / seconds_since(start) / 1e9);
  }
  return *std::ranges::max_element(rates);
}

Result<MatmulCheck> check_matmul(Device& device, CompileCache& cache, std::int64_t size) {
  const auto executable = TRY(compile(matmul_graph(), device, cache, {}));
  MemoryPool pool(device, "check");
  const auto context = TRY(ExecutionContext::create(executable, pool));
  const HostTensor a = sample_tensor(DType::f32, {size, size}, Fill::normal, 1);
  const HostTensor b = sample_tensor(DType::f32, {size, size}, Fill::normal, 2);
  const std::vector<HostTensor> inputs = {a, b};
  MatmulCheck check{.size = size};
  const auto outputs = TRY(context->run(inputs));  // the untimed run
  compare_rows(check, a, b, outputs[0]);
  std::vector<double> peaks, rates;
  // Peak and product take turns, so that a change of the machine's speed meets both.
  for (int i = 0; i < 3; ++i) {
    peaks.push_back(TRY(measure_peak_gflops(device, cache)));
    TRY(context->run(inputs, {.timed = true}));
    const double flops =
        2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
    rates.push_back(flops / (context->stats().kernels[0].milliseconds * 1e6));
  }
  check.gflops = median(rates);
  check.peak_gflops = median(peaks);
  check.share_of_peak = check.gflops / check.peak_gflops;
  return check;
}

}  // namespace diji
