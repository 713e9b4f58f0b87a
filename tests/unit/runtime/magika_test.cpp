// The first real model: magika, through the whole road. DIJI_TEST_MAGIKA names its model.onnx.
#include "formats/onnx/import.h"
#include "ops/samples.h"
#include "runtime/conformance.h"
#include "tests/unit/runtime/fixture.h"

#include <random>

namespace diji {
namespace {

// Bytes of a text-like file, 256 as padding: what the model is fed.
HostTensor tokens(std::int64_t batch) {
  std::mt19937 random(7);
  std::vector<std::int32_t> values(static_cast<std::size_t>(batch * 2048));
  for (auto& value : values) value = static_cast<std::int32_t>(random() % 257);
  return HostTensor::of<std::int32_t>({batch, 2048}, values);
}

std::vector<HostTensor> run(Session& session, const HostTensor& input) {
  auto outputs = session.run({{session.graph().inputs()[0].name, input}});
  REQUIRE_MESSAGE(outputs.has_value(), (outputs ? std::string() : outputs.error().message));
  return std::move(*outputs);
}

const char* model_path() {
  const char* path = std::getenv("DIJI_TEST_MAGIKA");
  if (path == nullptr)
    MESSAGE("skipped: DIJI_TEST_MAGIKA does not name the model (scripts/fetch-model magika)");
  return path;
}

TEST_CASE("magika: one executable for every batch, every row as if it were alone") {
  const char* path = model_path();
  if (path == nullptr) return;
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const auto session = Session::open(devices, path, {}).value();
  EXPECT(session->coverage().host == 0);
  const HostTensor all = tokens(32);
  const HostTensor together = run(*session, all)[0];
  for (const std::int64_t batch : {1, 2, 7}) {
    const HostTensor part = HostTensor::of<std::int32_t>(
        {batch, 2048}, all.values<std::int32_t>().first(static_cast<std::size_t>(batch * 2048)));
    const HostTensor got = run(*session, part)[0];
    REQUIRE(got.shape() == StaticShape{batch, 214});
    const auto bytes = together.bytes().first(got.bytes().size());
    EXPECT(std::equal(bytes.begin(), bytes.end(), got.bytes().begin()));
  }
  EXPECT(Session::open(devices, path, {}).value()->executable().compiled_kernels == 0);
}

TEST_CASE("magika: the same bits with 1, 2, 3 and 7 threads") {
  const char* path = model_path();
  if (path == nullptr) return;
  const test::ScratchCache cache;
  std::optional<HostTensor> first;
  for (const int threads : {1, 2, 3, 7}) {
    DeviceList devices(built_in_plugins(), threads);
    const HostTensor got = run(*Session::open(devices, path, {}).value(), tokens(2))[0];
    if (!first) first = got;
    EXPECT(got.same_bits(*first));
  }
}

TEST_CASE("magika: every kernel at every instruction level within its proven bound") {
  const char* path = model_path();
  if (path == nullptr) return;
  const test::ScratchCache cache;
  for (const std::string level : {"scalar", "avx2", "avx512"}) {
    CAPTURE(level);
    ::setenv("DIJI_CPU", level.c_str(), 1);
    DeviceList devices(built_in_plugins(), 2);
    if (!devices.open("cpu")) {
      MESSAGE("skipped: this machine has no ", level);
      continue;
    }
    auto graph = read_onnx(path);
    REQUIRE(graph.has_value());
    CompileCache kernels;
    const auto executable = compile(std::move(graph->graph), **devices.open("cpu"), kernels, {}).value();
    const auto checks = verify_kernels(executable, std::vector{tokens(1)});
    REQUIRE_MESSAGE(checks.has_value(), (checks ? std::string() : checks.error().message));
    EXPECT(checks->size() >= 15);
    double worst = 0;
    for (const KernelCheck& check : *checks) {
      CAPTURE(check.operators);
      CAPTURE(check.comparison.problem);
      EXPECT(check.comparison.ok);
      worst = std::max(worst, check.comparison.worst_share);
    }
    MESSAGE(level, ": ", checks->size(), " kernels, largest error ", worst, " of its bound");
  }
  ::unsetenv("DIJI_CPU");
}

}  // namespace
}  // namespace diji
