// The k-th allocation of device memory fails, and all from the k-th on, for every k: a typed error, nothing
// that stays behind, and the same objects give the right bits when there is memory again.
#include "base/files.h"
#include "ops/samples.h"
#include "runtime/model_file.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/formats/onnx_writer.h"
#include "tests/unit/runtime/control_flow_graphs.h"
#include "tests/unit/runtime/fixture.h"

#include <atomic>

namespace diji {
namespace {

enum class Fault { one, all_from_there };

/// The cpu's memory, as of a device that sees none of the host's, with a fault in it.
struct Memory {
  std::atomic<int> until_fault = -1;  ///< allocations; negative: none is planned
  std::atomic<bool> all = false;
  std::atomic<bool> tripped = false;
  std::atomic<int> live = 0;

  void arm(int k, Fault fault) {
    tripped = false;
    all = fault == Fault::all_from_there;
    until_fault = k;
  }
  /// Whether the fault happened.
  bool disarm() {
    until_fault = -1;
    return tripped;
  }
  bool fails() {
    if (until_fault < 0) return false;
    const bool now = until_fault == 0;
    if (!now || !all) --until_fault;
    if (now) tripped = true;
    return now;
  }
};
Memory& memory() {
  static Memory one;
  return one;
}

const diji_device_plugin_table& cpu() { return *built_in_plugins()[0]; }

const diji_device_plugin_table& table() {
  static const diji_device_plugin_table made = [] {
    diji_device_plugin_table t = cpu();
    t.device_properties = [](std::int32_t ordinal, diji_device_properties* out) {
      const diji_status status = cpu().device_properties(ordinal, out);
      out->host_visible = 0;
      return status;
    };
    t.import_host = nullptr;
    t.map = nullptr;
    t.alloc = [](diji_device* device, std::uint64_t bytes, diji_buffer** out) -> diji_status {
      if (memory().fails()) return DIJI_ERROR_OUT_OF_MEMORY;
      const diji_status status = cpu().alloc(device, bytes, out);
      if (status == DIJI_OK) ++memory().live;
      return status;
    };
    t.free = [](diji_device* device, diji_stream* stream, diji_buffer* buffer) {
      --memory().live;
      cpu().free(device, stream, buffer);
    };
    return t;
  }();
  return made;
}

struct Machine {
  const diji_device_plugin_table* const tables[1] = {&table()};
  DeviceList list{tables, 2};
  Device& device() { return *list.open("cpu").value(); }
};

void expect_out_of_memory(const Error& error) {
  CAPTURE(error.message);
  EXPECT(error.code == ErrorCode::out_of_memory);
  EXPECT(error.bytes >= 0);
  EXPECT(error.pool.contains("used"));
}

/// Each k until the fault no longer happens; how many runs of `attempt(k, fault)` it stopped.
int for_every_k(const std::function<bool(Fault fault)>& attempt) {
  int stopped = 0;
  for (const Fault fault : {Fault::one, Fault::all_from_there}) {
    for (int k = 0;; ++k) {
      REQUIRE(k < 1000);
      CAPTURE(k);
      memory().arm(k, fault);
      const bool done = attempt(fault);
      if (!done) ++stopped;
      if (!memory().disarm()) {
        EXPECT(done);
        break;
      }
    }
  }
  return stopped;
}

using Tensors = std::vector<HostTensor>;

bool same(const Tensors& a, const Tensors& b) {
  return std::ranges::equal(a, b, [](const HostTensor& x, const HostTensor& y) { return x.same_bits(y); });
}
HostTensor normal(StaticShape shape) { return sample_tensor(DType::f32, std::move(shape), Fill::normal, 1); }
HostTensor truth(bool value) { return HostTensor::of<bool>({}, {value}); }

/// A context is made and run; where that fails, made or run again.
bool run_twice(const std::shared_ptr<const Executable>& executable, const Tensors& inputs,
               const Tensors& wanted) {
  MemoryPool pool(*executable->device, "test");
  bool done = true;
  const auto failed = [&](const Error& error) {
    expect_out_of_memory(error);
    memory().disarm();
    done = false;
  };
  auto context = ExecutionContext::create(executable, pool);
  if (!context) {
    failed(context.error());
    EXPECT(pool.state().used_bytes == 0);
    context = ExecutionContext::create(executable, pool);
    REQUIRE(context);
  }
  const std::uint64_t idle = pool.state().used_bytes;
  auto outputs = (*context)->run(inputs);
  if (!outputs) {
    failed(outputs.error());
    EXPECT(pool.state().used_bytes == idle);
    outputs = (*context)->run(inputs);
  }
  REQUIRE_MESSAGE(outputs, outputs.error().message);
  EXPECT(same(*outputs, wanted));
  return done;
}

struct Run {
  std::string graph;
  Tensors inputs;
};

TEST_CASE("contexts and runs: straight, branches, loops") {
  const Run runs[] = {
      {print(test::small_graph()), {normal({20, 40}), normal({40})}},
      {std::string(test::kBranches), {truth(true), normal({64})}},
      {std::string(test::kScan),
       {normal({5, 4, 8}), normal({5, 4, 8}), normal({5, 4, 1}), normal({8, 8}), normal({4, 8})}},
      {std::string(test::kUntil), {normal({40, 2}), normal({2}), truth(true)}},
      {std::string(test::kTwoLevels), {normal({4, 16}), normal({16}), normal({16})}},
      {std::string(test::kCounted), {normal({50}), normal({3, 1}), truth(true)}},
  };
  for (const char* pool : {"on", "off"}) {
    const test::ScopedEnvironment environment("DIJI_POOL", pool);
    for (const Run& run : runs) {
      CAPTURE(run.graph);
      const test::ScratchCache cache;
      {
        Machine machine;
        CompileCache kernels;
        const auto executable = compile(test::graph_from(run.graph), machine.device(), kernels, {});
        REQUIRE_MESSAGE(executable, executable.error().message);
        Tensors wanted;
        {
          MemoryPool enough(machine.device(), "enough");
          wanted = (*ExecutionContext::create(*executable, enough))->run(run.inputs).value();
        }
        const int before = memory().live;
        const int stopped = for_every_k([&](Fault) { return run_twice(*executable, run.inputs, wanted); });
        EXPECT(stopped >= (std::string_view(pool) == "off" ? 4 : 1));
        EXPECT(memory().live == before);
      }
      EXPECT(memory().live == 0);
    }
  }
}

/// z = x·y + y: a weight that lies on the device.
test::Message weighted_model() {
  return test::model_of(
      test::small_graph({test::node("Mul", {"x", "y"}, {"m"}), test::node("Add", {"m", "y"}, {"z"})}));
}

TEST_CASE("models opened: compiled, from the cache, from a .dji") {
  for (const char* pool : {"on", "off"}) {
    const test::ScopedEnvironment environment("DIJI_POOL", pool);
    const test::ScratchCache cache;
    {
      Machine machine;
      const auto onnx = cache.folder() / "m.onnx", text = cache.folder() / "m.txt",
                 dji = cache.folder() / "m.dji";
      REQUIRE(write_file_atomically(onnx, weighted_model().bytes()));
      REQUIRE(write_file_atomically(text, test::kUntil));
      REQUIRE(write_model_file(dji, onnx, {}, machine.device()));
      for (const auto& path : {text, onnx, dji}) {
        CAPTURE(path.string());
        const int before = memory().live;
        const int stopped = for_every_k([&](Fault) {
          machine.device().default_pool().trim();
          auto session = Session::open(machine.list, path, {});
          if (session) return true;
          expect_out_of_memory(session.error());
          EXPECT(machine.device().default_pool().state().used_bytes == 0);
          memory().disarm();
          session = Session::open(machine.list, path, {});
          EXPECT(session);
          return false;
        });
        EXPECT(stopped >= 1);
        machine.device().default_pool().trim();
        EXPECT(memory().live <= before);
      }
    }
    EXPECT(memory().live == 0);
  }
}

TEST_CASE("a staged session: whichever part has no memory") {
  for (const char* pool : {"on", "off"}) {
    const test::ScopedEnvironment environment("DIJI_POOL", pool);
    const test::ScratchCache cache;
    {
      Machine machine;
      const auto path = cache.folder() / "staged.onnx";
      test::GraphSpec graph{
          .nodes = {test::node("Sub", {"one", "a"}, {"axes"}),
                    test::node("ReduceSum", {"x", "axes"}, {"y"}, {test::int_attribute("keepdims", 0)})},
          .initializers = {test::int_tensor("one", {1})},
          .inputs = {test::tensor_info("x", test::kFloat, {std::string_view("A"), std::string_view("B")}),
                     test::tensor_info("a", test::kInt64, {std::string_view("K")})},
          .outputs = {test::value_info("y", {})}};
      REQUIRE(write_file_atomically(path, test::model_of(graph).bytes()));
      const std::map<std::string, HostTensor> inputs = {{"x", normal({20, 30})},
                                                        {"a", HostTensor::of<std::int64_t>({1}, {1})}};
      const auto wanted = (*Session::open(machine.list, path, {}))->run(inputs).value();
      const int stopped = for_every_k([&](Fault) {
        auto session = Session::open(machine.list, path, {});
        const bool opened = session.has_value();
        if (!opened) {
          expect_out_of_memory(session.error());
          memory().disarm();
          session = Session::open(machine.list, path, {});
          REQUIRE(session);
        }
        auto outputs = (*session)->run(inputs);
        const bool ran = outputs.has_value();
        if (!ran) {
          expect_out_of_memory(outputs.error());
          memory().disarm();
          outputs = (*session)->run(inputs);
        }
        REQUIRE_MESSAGE(outputs, outputs.error().message);
        EXPECT(same(*outputs, wanted));
        return opened && ran;
      });
      EXPECT(stopped >= 1);
    }
    EXPECT(memory().live == 0);
  }
}

}  // namespace
}  // namespace diji
