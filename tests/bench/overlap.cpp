// What the overlap of collectives with kernels is worth, by hand: build/release/bin/bench_overlap. Eight
// virtual accelerators do a synthetic training step (120 ms of backward pass, 102 MB of gradients in buckets
// of 25 MB, links of 25 GB/s and 5 us to the host and between cards); all bytes really travel, times are
// simulated. It needs 3 GB.
#include "tests/unit/runtime/training_step.h"

#include <cstdio>

int main() {
  const diji::test::TrainingStep step;
  const auto times = diji::test::SimulatedStep(step).run();
  if (!times) {
    fmt::print(stderr, "bench_overlap: {}\n", times.error().message);
    return diji::exit_code(times.error().code);
  }
  fmt::print(
      "{} virtual accelerators, {:.0f} MB of gradients in buckets of {:.0f} MB, {:.0f} GB/s, {:.0f} us\n",
      step.cards, static_cast<double>(step.gradient_bytes) / 1e6,
      static_cast<double>(step.bucket_bytes) / 1e6, step.link_bytes_per_s / 1e9, step.link_latency_ns / 1e3);
  fmt::print("one card alone    {:8.3f} ms\n", times->compute_ms);
  fmt::print("without overlap   {:8.3f} ms   efficiency {:.1f} %\n", times->serial_ms,
             100 * times->serial_efficiency());
  fmt::print("with overlap      {:8.3f} ms   efficiency {:.1f} %\n", times->overlapped_ms,
             100 * times->overlapped_efficiency());
  return times->overlapped_efficiency() >= 0.95 ? 0 : 1;
}
