// A synthetic training step on virtual accelerators: a backward pass that makes gradients in buckets, each of
// which is reduced over all cards and then read. Times are simulated, so they are exact and repeat.
#pragma once

#include "plugins/cpu/cpu_plugin.h"
#include "plugins/sim/sim_plugin.h"
#include "runtime/compiler.h"
#include "runtime/device_collective.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/collective/thread_world.h"
#include "tests/unit/device/environment.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace diji::test {

struct TrainingStep {
  int cards = 8;
  double backward_ms = 120;
  std::int64_t gradient_bytes = 102'000'000;
  std::int64_t bucket_bytes = 25'000'000;
  double link_bytes_per_s = 25e9;  ///< to the host, and between cards
  double link_latency_ns = 5000;
  std::int64_t slice_bytes = std::int64_t{4} << 20;
  /// All bytes and rates are this much smaller: the same simulated times with less real work.
  std::int64_t scale = 1;
};

struct StepTimes {
  double compute_ms = 0;     ///< of one card without anybody to wait for
  double serial_ms = 0;      ///< where each bucket is waited for
  double overlapped_ms = 0;  ///< where buckets travel beside the backward pass
  double serial_efficiency() const { return compute_ms / serial_ms; }
  double overlapped_efficiency() const { return compute_ms / overlapped_ms; }
};

class SimulatedStep {
 public:
  explicit SimulatedStep(TrainingStep step) : step_(step) {
    for (std::int64_t left = step.gradient_bytes / step.scale; left > 0; left -= buckets_.back())
      buckets_.push_back(std::min(left, step.bucket_bytes / step.scale));
    for (std::int64_t& bytes : buckets_) bytes = std::max<std::int64_t>(bytes / kRowBytes, 1) * kRowBytes;
    environment_ =
        std::make_unique<ScopedEnvironment>("DIJI_SIM", folder_.write("card.txt", card()).string());
  }

  Result<StepTimes> run() {
    StepTimes times;
    times.compute_ms = TRY(time_ms(false, false));
    times.serial_ms = TRY(time_ms(true, false));
    times.overlapped_ms = TRY(time_ms(true, true));
    return times;
  }

  /// Of the slowest card.
  Result<double> time_ms(bool exchanges, bool overlap) {
    std::vector<Result<double>> times(static_cast<std::size_t>(exchanges ? step_.cards : 1), 0.0);
    DeviceList devices(tables_, 2);  // opened anew, so that their clocks begin at 0
    if (!exchanges) return time_of(devices, 0, nullptr, overlap);
    collective::ThreadWorld(step_.cards).run([&](collective::Communicator& communicator) {
      times[static_cast<std::size_t>(communicator.rank())] =
          time_of(devices, communicator.rank(), &communicator, overlap);
    });
    double slowest = 0;
    for (auto& time : times) slowest = std::max(slowest, TRY(std::move(time)));
    return slowest;
  }

 private:
  static constexpr std::int64_t kColumns = 500, kRowBytes = kColumns * 4;
  static constexpr std::int64_t kDepth = 8;

  // So slow that the products of all buckets take as long as the backward pass.
  std::string card() const {
    double flops = 0;
    for (const std::int64_t bytes : buckets_) flops += static_cast<double>(bytes / 4 * 2 * kDepth);
    const auto scale = static_cast<double>(step_.scale);
    return fmt::format(
        "devices = {}\nflops_per_s = {}\nbytes_per_s = {}\nlink_bytes_per_s = {}\nlink_latency_ns = {}\n"
        "peer_bytes_per_s = {}\npeer_latency_ns = {}\n",
        step_.cards, flops / step_.backward_ms * 1e3, 1e12 / scale, step_.link_bytes_per_s / scale,
        step_.link_latency_ns, step_.link_bytes_per_s / scale, step_.link_latency_ns);
  }

  // A product a bucket; what is left of each is one row.
  Graph graph(bool exchanges) const {
    Graph graph;
    Builder b(graph);
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const Dim rows = buckets_[i] / kRowBytes;
      const ValueId x = graph.add_input(fmt::format("x{}", i), {DType::f32, {rows, kDepth}});
      const ValueId w = graph.add_input(fmt::format("w{}", i), {DType::f32, {kDepth, kColumns}});
      ValueId gradient = b.dot_general(x, w, {.lhs_contracting = {1}, .rhs_contracting = {0}});
      if (exchanges) {
        gradient = b.all_reduce(gradient, Reduction::sum,
                                {"data", static_cast<std::int64_t>(i), Dim::symbol("ranks", {1, 1024})});
      }
      graph.add_output(fmt::format("y{}", i), b.slice(gradient, {0, 0}, {1, kColumns}, {1, 1}));
    }
    CHECK(b.ok(), "a graph of products");
    return graph;
  }

  std::vector<HostTensor> inputs(int rank) const {
    std::vector<HostTensor> tensors;
    for (const std::int64_t bytes : buckets_) {
      for (const StaticShape& shape :
           {StaticShape{bytes / kRowBytes, kDepth}, StaticShape{kDepth, kColumns}}) {
        HostTensor tensor = HostTensor::allocate(DType::f32, shape).value();
        std::ranges::fill(tensor.mutable_values<float>(), static_cast<float>(rank + 1));
        tensors.push_back(std::move(tensor));
      }
    }
    return tensors;
  }

  // Outputs are checked too: a step that computes nothing has no time.
  Result<double> time_of(DeviceList& devices, int rank, collective::Communicator* communicator,
                         bool overlap) {
    Device& device = *TRY(devices.open(fmt::format("sim:{}", rank)));
    CompileCache cache("");  // none
    const auto executable = TRY(compile(graph(communicator != nullptr), device, cache, {}));
    const auto context = TRY(ExecutionContext::create(executable, device.default_pool()));
    std::unique_ptr<DeviceGroup> group;
    RunOptions options{.overlap = overlap};
    if (communicator != nullptr) {
      group =
          TRY(DeviceGroup::create(device, *communicator, {.slice_bytes = step_.slice_bytes / step_.scale}));
      options.groups = {{"data", group.get()}};
    }
    const auto given = inputs(rank);
    Stream stream = TRY(device.new_stream());
    Event begin = TRY(device.new_event()), end = TRY(device.new_event());
    TRY(begin.record(stream));
    const auto outputs = TRY(context->run(given, options));
    TRY(end.record(stream));
    float wanted = 0;
    const int ranks = communicator == nullptr ? 1 : communicator->world();
    for (int r = 0; r < ranks; ++r) wanted += static_cast<float>((r + 1) * (r + 1) * kDepth);
    for (const HostTensor& output : outputs) {
      if (output.values<float>()[kColumns - 1] != wanted)
        return fail(ErrorCode::failed, "a gradient is {}, not {}", output.values<float>()[kColumns - 1],
                    wanted);
    }
    return static_cast<double>(TRY(end.ns_since(begin))) / 1e6;
  }

  TrainingStep step_;
  std::vector<std::int64_t> buckets_;
  ScratchFolder folder_;
  std::unique_ptr<ScopedEnvironment> environment_;
  std::array<const diji_device_plugin_table*, 2> tables_ = {diji_plugin_cpu(),
                                                            diji_plugin_sim(diji_plugin_cpu())};
};

}  // namespace diji::test
