// Ten thousand runs in one process: good ones of sizes that change and ones that are refused, and nothing
// grows.
#include "base/log.h"
#include "ops/samples.h"
#include "tests/unit/memory/host_memory.h"
#include "tests/unit/runtime/control_flow_graphs.h"
#include "tests/unit/runtime/fixture.h"

#include <fstream>

namespace diji {
namespace {

constexpr int kRuns = 10'000;
constexpr int kRound = 20;  // after so many, the same sizes and mistakes come again

using Inputs = std::vector<HostTensor>;

HostTensor normal(StaticShape shape) { return sample_tensor(DType::f32, std::move(shape), Fill::normal, 1); }
HostTensor truth(bool value) { return HostTensor::of<bool>({}, {value}); }

struct Growing {
  std::string graph;
  std::function<Inputs(int i)> inputs;  ///< i in [0, kRound); every fifth is refused
};

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * ::getpagesize();
}

struct Measured {
  std::int64_t allocations, resident;
  std::uint64_t pool;
};

/// After `rounds` rounds.
Measured after(Session& session, std::span<const std::map<std::string, HostTensor>> inputs, int rounds) {
  for (int i = 0; i < rounds * kRound; ++i) {
    const auto outputs = session.run(inputs[static_cast<std::size_t>(i % kRound)]);
    if (outputs.has_value() == (i % 5 == 4)) EXPECT(outputs.has_value() == (i % 5 != 4));
  }
  return {test::HostMemory::live(), resident_bytes(), session.pool().state().held_bytes};
}

TEST_CASE("ten thousand runs hold no more than ten did") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const Growing all[] = {
      {print(test::small_graph()),
       [](int i) { return Inputs{normal({i % 5 == 4 ? 3 : i, i % 5 == 4 ? 39 : 40}), normal({40})}; }},
      {std::string(test::kBranches),
       [](int i) {
         return i % 5 == 4 ? Inputs{normal({2}), normal({3})} : Inputs{truth(i % 2 == 0), normal({7 * i})};
       }},
      {std::string(test::kUntil),
       [](int i) { return Inputs{normal({i, 2}), normal({i % 5 == 4 ? 3 : 2}), truth(true)}; }},
      {std::string(test::kCounted),
       [](int i) {
         return Inputs{normal({50 * i}), normal({i % 4, i % 5 == 4 ? 2 : 1}), truth(i % 3 == 0)};
       }},
  };
  for (const Growing& one : all) {
    CAPTURE(one.graph);
    const auto session = Session::of(devices, test::graph_from(one.graph), {});
    REQUIRE_MESSAGE(session, session.error().message);
    std::vector<std::map<std::string, HostTensor>> inputs(kRound);
    for (int i = 0; i < kRound; ++i) {
      const Inputs tensors = one.inputs(i);
      for (std::size_t port = 0; port < tensors.size(); ++port)
        inputs[static_cast<std::size_t>(i)][(*session)->graph().inputs()[port].name] = tensors[port];
    }
    constexpr int kHalf = kRuns / 2 / kRound;
    const Measured half = after(**session, inputs, kHalf), whole = after(**session, inputs, kHalf);
    EXPECT(whole.allocations == half.allocations);
    EXPECT(whole.pool == half.pool);
    if (!test::HostMemory::sanitized()) EXPECT(whole.resident <= half.resident + (1 << 20));
  }
}

}  // namespace
}  // namespace diji
