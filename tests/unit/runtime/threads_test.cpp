// One executable run by many threads at once, and many sessions that begin at once with one cache: the bits
// of one thread. Built with ThreadSanitizer too (scripts/dev build tsan threaded).
#include "base/files.h"
#include "ops/samples.h"
#include "tests/unit/runtime/control_flow_graphs.h"
#include "tests/unit/runtime/fixture.h"

#include <atomic>
#include <thread>

namespace diji {
namespace {

using Tensors = std::vector<HostTensor>;

HostTensor normal(StaticShape shape) { return sample_tensor(DType::f32, std::move(shape), Fill::normal, 1); }

bool same(const Result<Tensors>& got, const Tensors& wanted) {
  return got && std::ranges::equal(*got, wanted, [](const auto& a, const auto& b) { return a.same_bits(b); });
}

/// `job(i)` on so many threads at once; how many said no.
int refusals(int threads, const std::function<bool(int i)>& job) {
  std::atomic<int> waiting = threads, wrong = 0;
  std::vector<std::thread> started;
  for (int i = 0; i < threads; ++i) {
    started.emplace_back([&, i] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      if (!job(i)) ++wrong;
    });
  }
  for (std::thread& thread : started) thread.join();
  return wrong;
}

constexpr int kRuns = 10;

TEST_CASE("threads: many run one executable, each in a context of its own") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 3);
  Device& device = *devices.open("cpu").value();
  const std::pair<std::string, Tensors> models[] = {
      {print(test::small_graph()), {normal({200, 40}), normal({40})}},
      {std::string(test::kTwoLevels), {normal({4, 300}), normal({300}), normal({300})}},
      {std::string(test::kBranches), {HostTensor::of<bool>({}, {true}), normal({900})}}};
  for (const auto& [text, inputs] : models) {
    CompileCache kernels;
    const auto executable = compile(test::graph_from(text), device, kernels, {}).value();
    const Tensors wanted =
        ExecutionContext::create(executable, device.default_pool()).value()->run(inputs).value();
    for (const int threads : {2, 3, 16}) {
      CAPTURE(threads);
      EXPECT(refusals(threads, [&](int) {
               const auto context = ExecutionContext::create(executable, device.default_pool());
               if (!context) return false;
               bool right = true;
               for (int run = 0; run < kRuns; ++run) right = same((*context)->run(inputs), wanted) && right;
               return right;
             }) == 0);
    }
  }
}

TEST_CASE("threads: one session, and sessions that compile the same for the first time at once") {
  const std::map<std::string, HostTensor> inputs = {{"x", normal({50, 40})}, {"w", normal({40})}};
  Tensors wanted;
  for (const int threads : {1, 2, 3, 16}) {
    CAPTURE(threads);
    const test::ScratchCache cache;
    DeviceList devices(built_in_plugins(), 3);
    std::vector<std::unique_ptr<Session>> sessions(static_cast<std::size_t>(threads));
    EXPECT(refusals(threads, [&](int i) {
             auto session = Session::of(devices, test::small_graph(), {});
             if (session) sessions[static_cast<std::size_t>(i)] = *std::move(session);
             return session.has_value();
           }) == 0);
    if (threads == 1) wanted = sessions[0]->run(inputs).value();
    EXPECT(refusals(threads, [&](int i) {
             bool right = true;
             for (int run = 0; run < kRuns; ++run) {
               right = same(sessions[0]->run(inputs), wanted) && right;
               right = same(sessions[static_cast<std::size_t>(i)]->run(inputs), wanted) && right;
             }
             return right;
           }) == 0);
  }
}

}  // namespace
}  // namespace diji
