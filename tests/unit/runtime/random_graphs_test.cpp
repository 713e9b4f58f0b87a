// Random graphs compiled for the CPU: every result lies within the proven bound of the float64 interpreter.
// The same program runs with DIJI_CPU=scalar and avx2 (tests/CMakeLists.txt).
#include "graph/text.h"
#include "runtime/compiler.h"
#include "runtime/session.h"

#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/expect.h"
#include "tests/unit/random_graph.h"

namespace diji {
namespace {

constexpr std::uint64_t kGraphs = 300;

struct Machine {
  DeviceList devices{built_in_plugins(), usable_cores()};
  test::ScratchFolder folder;
  CompileCache cache{folder.path()};
  Device* cpu = nullptr;
  int ran = 0, refused = 0;

  Machine() {
    auto device = devices.open("cpu");
    REQUIRE_MESSAGE(device, device.error().message);
    cpu = *device;
  }
};

void check_graph(Machine& machine, const test::RandomGraph& random) {
  CAPTURE(print(random.graph()));
  const auto truth = interpret_with_bounds(random.graph(), random.inputs());
  REQUIRE_MESSAGE(truth, truth.error().message);
  const auto executable = compile(random.graph(), *machine.cpu, machine.cache, {.verify_each = true});
  if (!executable && executable.error().code == ErrorCode::unsupported) {
    ++machine.refused;
    return;
  }
  REQUIRE_MESSAGE(executable, executable.error().message);
  const auto context = ExecutionContext::create(*executable, machine.cpu->default_pool());
  REQUIRE_MESSAGE(context, context.error().message);
  CAPTURE(print((*executable)->graph()));
  // Twice: the second run meets the arena as the first one left it.
  for (int run = 0; run < 2; ++run) {
    const auto got = (*context)->run(random.inputs());
    REQUIRE_MESSAGE(got, got.error().message);
    for (std::size_t i = 0; i < got->size(); ++i) {
      CAPTURE(random.graph().outputs()[i].name);
      EXPECT(test::difference((*got)[i], (*truth)[i]) == "");
    }
  }
  ++machine.ran;
}

TEST_CASE("random graphs run on the CPU within the bound") {
  Machine machine;
  test::for_each_seed(kGraphs, [&](std::uint64_t seed) {
    INFO("DIJI_TEST_SEED=", seed);
    check_graph(machine, test::RandomGraph(seed, {.steps = static_cast<int>(2 + seed % 9),
                                                  .special_values = seed % 7 == 0,
                                                  .data_sizes = true}));
  });
  if (std::getenv("DIJI_TEST_SEED") == nullptr) EXPECT(machine.refused < machine.ran / 10);
}

}  // namespace
}  // namespace diji
