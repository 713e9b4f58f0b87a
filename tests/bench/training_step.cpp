// What data parallelism costs on real ranks, by hand:
//   build/release/bin/diji launch -n 2 -- build/release/bin/bench_training_step [TOKENS [LAYERS [WIDTH
//   [ROUNDS]]]]
// Each rank trains a stack of dense layers (forward, backward, new weights; f32) on tokens of its own. In
// each round all ranks do a step of their own and then one whose gradients are reduced over all ranks, each
// as soon as it is there. A step is as long as the slowest rank's; the ratio is of the two steps of a round.
#include "base/thread_pool.h"
#include "collective/bootstrap.h"
#include "collective/regroup.h"
#include "graph/builder.h"
#include "plugins/cpu/cpu_plugin.h"
#include "runtime/compiler.h"
#include "runtime/device_collective.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace diji {
namespace {

struct Options {
  std::int64_t tokens = 1024, layers = 24, width = 1024, rounds = 7;
  std::int64_t gradient_bytes() const { return layers * width * width * 4; }
  /// Of the products forward, of those for the gradients of weights, and of those for the ones of
  /// activations, which the first layer does without.
  double flops() const {
    return 2.0 * static_cast<double>(tokens * width * width) * static_cast<double>(3 * layers - 1);
  }
};

// y = relu(x w) a layer; the loss is half the squared distance of the last y from zero.
Graph training_step(const Options& options) {
  Graph graph;
  Builder b(graph);
  const Dim width = options.width;
  std::vector<ValueId> inputs = {graph.add_input("x", {DType::f32, {options.tokens, width}})}, weights;
  const ValueId zero = b.scalar(DType::f32, 0), rate = b.scalar(DType::f32, 1e-6);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    weights.push_back(graph.add_input(fmt::format("w{}", layer), {DType::f32, {width, width}}));
    const ValueId product =
        b.dot_general(inputs.back(), weights.back(), {.lhs_contracting = {1}, .rhs_contracting = {0}});
    inputs.push_back(b.maximum(product, zero));
  }
  std::vector<ValueId> news(weights.size());
  ValueId up = inputs.back();
  for (std::int64_t layer = options.layers - 1; layer >= 0; --layer) {
    const auto i = static_cast<std::size_t>(layer);
    const ValueId through = b.select(b.less(zero, inputs[i + 1]), up, zero);
    const ValueId gradient =
        b.dot_general(inputs[i], through, {.lhs_contracting = {0}, .rhs_contracting = {0}});
    const ValueId summed = b.all_reduce(
        gradient, Reduction::sum, {"data", options.layers - 1 - layer, Dim::symbol("ranks", {1, 1024})});
    news[i] = b.subtract(weights[i], b.multiply(summed, rate));
    if (layer > 0) up = b.dot_general(through, weights[i], {.lhs_contracting = {1}, .rhs_contracting = {1}});
  }
  for (std::size_t i = 0; i < news.size(); ++i) graph.add_output(fmt::format("w{}", i), news[i]);
  CHECK(b.ok(), "a stack of dense layers");
  return graph;
}

// Weights are equal on all ranks, tokens are not; both are small and of both signs.
std::vector<HostTensor> inputs_of(const Options& options, int rank) {
  std::vector<HostTensor> tensors;
  const auto add = [&](std::int64_t rows, std::uint32_t seed, float scale) {
    tensors.push_back(HostTensor::allocate(DType::f32, {rows, options.width}).value());
    for (float& value : tensors.back().mutable_values<float>()) {
      seed = seed * 1664525 + 1013904223;
      value = (static_cast<float>(seed >> 8) / 0x1p24F - 0.5F) * scale;
    }
  };
  add(options.tokens, static_cast<std::uint32_t>(rank) + 1, 1);
  for (std::int64_t i = 0; i < options.layers; ++i)
    add(options.width, static_cast<std::uint32_t>(100 + i), 0.1F);
  return tensors;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Rank {
 public:
  Rank(Options options, collective::Communicator& all) : options_(options), all_(all) {}

  Result<void> run() {
    const std::array tables = {diji_plugin_cpu()};
    DeviceList devices(tables, usable_cores());
    Device& device = *TRY(devices.open("cpu"));
    CompileCache cache("");  // none
    const auto executable = TRY(compile(training_step(options_), device, cache, {}));
    const auto context = TRY(ExecutionContext::create(executable, device.default_pool()));
    const auto links = TRY(collective::dup(all_));
    const auto group = TRY(DeviceGroup::create(device, *links));
    const auto inputs = inputs_of(options_, all_.rank());
    std::vector<double> alone, together, ratios;
    for (std::int64_t round = -1; round < options_.rounds; ++round) {  // the first warms up
      const double one = TRY(step_ms(*context, inputs, {}));
      const double both = TRY(step_ms(*context, inputs, {.groups = {{"data", group.get()}}}));
      if (round < 0) continue;
      alone.push_back(one);
      together.push_back(both);
      ratios.push_back(one / both);
    }
    if (all_.rank() == 0) print(alone, together, ratios);
    return {};
  }

 private:
  // Of the slowest rank.
  Result<double> step_ms(ExecutionContext& context, std::span<const HostTensor> inputs,
                         const RunOptions& options) {
    TRY(all_.run({.operation = collective::Operation::barrier}));
    const auto begin = std::chrono::steady_clock::now();
    TRY(context.run(inputs, options));
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    double slowest = 0;
    TRY(all_.run({.operation = collective::Operation::all_reduce,
                  .input = &ms,
                  .output = &slowest,
                  .count = 1,
                  .type = collective::ElementType::f64,
                  .reduction = collective::Reduction::max}));
    return slowest;
  }

  void print(const std::vector<double>& alone, const std::vector<double>& together,
             const std::vector<double>& ratios) const {
    const double ms = median(alone), rate = options_.flops() / ms / 1e6;
    const auto [least, most] = std::ranges::minmax(ratios);
    fmt::print(
        "{} ranks ({}), {} layers of {} x {}, {} tokens a rank: {:.1f} MB of gradients, {:.1f} GFLOP a "
        "step\n",
        all_.world(), all_.transports(), options_.layers, options_.width, options_.width, options_.tokens,
        static_cast<double>(options_.gradient_bytes()) / 1e6, options_.flops() / 1e9);
    fmt::print("compute only      {:8.1f} ms   {:.1f} GFLOP/s a rank\n", ms, rate);
    fmt::print("with all_reduce   {:8.1f} ms\n", median(together));
    fmt::print("throughput        {:.3f} of compute only ({:.3f}-{:.3f}, {} rounds)\n", median(ratios), least,
               most, ratios.size());
  }

  Options options_;
  collective::Communicator& all_;
};

Result<void> run(int count, char** words) {
  Options options;
  const std::array fields = {&options.tokens, &options.layers, &options.width, &options.rounds};
  for (int i = 1; i < count; ++i) {
    char* end = nullptr;
    const long long value = i <= std::ssize(fields) ? std::strtoll(words[i], &end, 10) : 0;
    if (value < 1 || value > 1 << 20 || *end != 0)
      return fail(ErrorCode::usage, "'{}': TOKENS LAYERS WIDTH ROUNDS are positive numbers", words[i]);
    *fields[static_cast<std::size_t>(i - 1)] = value;
  }
  const auto all = TRY(collective::communicator_of_job());
  return Rank(options, *all).run();
}

}  // namespace
}  // namespace diji

int main(int count, char** words) {
  const auto done = diji::run(count, words);
  if (done) return 0;
  fmt::print(stderr, "bench_training_step: {}\n", done.error().message);
  return diji::exit_code(done.error().code);
}
