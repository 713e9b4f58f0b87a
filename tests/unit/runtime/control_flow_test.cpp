// Branches, loops and sizes from data on a device: the interpreter's answers, one compilation for all sizes,
// and nothing that grows from run to run.
#include "graph/builder.h"
#include "graph/interpreter.h"
#include "ops/samples.h"
#include "runtime/conformance.h"
#include "tests/unit/runtime/control_flow_graphs.h"
#include "tests/unit/runtime/fixture.h"

#include <thread>

namespace diji {
namespace {

HostTensor floats(std::initializer_list<float> values) {
  return HostTensor::of<float>({std::ssize(values)}, values);
}
HostTensor normal(StaticShape shape, std::uint32_t seed = 1) {
  return sample_tensor(DType::f32, std::move(shape), Fill::normal, seed);
}
HostTensor number(std::int64_t value) { return HostTensor::of<std::int64_t>({}, {value}); }
HostTensor truth(bool value) { return HostTensor::of<bool>({}, {value}); }

// A graph compiled for the cpu, with a context that is used again and again.
class Model {
 public:
  explicit Model(Graph graph, int threads = 2, std::uint64_t limit = 0)
      : devices_(built_in_plugins(), threads), graph_(std::move(graph)) {
    auto session =
        Session::of(devices_, graph_, {.memory_limit_bytes = limit, .passes = {.verify_each = true}});
    REQUIRE_MESSAGE(session, session.error().message);
    session_ = std::move(*session);
  }
  explicit Model(std::string_view text, int threads = 2, std::uint64_t limit = 0)
      : Model(test::graph_from(text), threads, limit) {}

  Result<std::vector<HostTensor>> run(const std::vector<HostTensor>& inputs, const RunOptions& options = {}) {
    std::map<std::string, HostTensor> named;
    for (std::size_t i = 0; i < inputs.size(); ++i) named[graph_.inputs()[i].name] = inputs[i];
    return session_->run(named, &stats_, options);
  }

  // Outputs, after they were compared with the truth.
  std::vector<HostTensor> checked(const std::vector<HostTensor>& inputs) {
    auto got = run(inputs);
    REQUIRE_MESSAGE(got, got.error().message);
    const auto wanted = interpret_with_bounds(graph_, inputs);
    REQUIRE_MESSAGE(wanted, wanted.error().message);
    for (std::size_t i = 0; i < got->size(); ++i) {
      CAPTURE(i);
      const Comparison compared = compare_with_truth((*got)[i], (*wanted)[i].value, (*wanted)[i].bound);
      CAPTURE(compared.problem);
      EXPECT(compared.ok);
    }
    return std::move(*got);
  }

  Session& session() { return *session_; }
  const RunStats& stats() const { return stats_; }

 private:
  test::ScratchCache cache_;
  DeviceList devices_;
  Graph graph_;
  std::unique_ptr<Session> session_;
  RunStats stats_;
};

TEST_CASE("branches of different sizes, with values that are passed on as they are") {
  Model model(test::kBranches);
  for (const std::int64_t n : {3, 0, 100, 1, 3}) {
    for (const bool condition : {true, false, true}) {
      const auto got = model.checked({truth(condition), normal({n})});
      EXPECT((got[0].shape() == StaticShape{condition ? 2 * n : n}));
    }
  }
}

// Sixteen branches in each other: each adds its level on one side and ends on the other.
Graph nested(int depth) {
  Graph graph;
  const Dim n = Dim::symbol("N");
  const ValueId level = graph.add_input("level", {DType::i64, {}});
  const ValueId x = graph.add_input("x", {DType::f32, {n}});
  Builder builder(graph);
  if (depth == 0) {
    graph.add_output("y", builder.add(x, x));
    return graph;
  }
  Graph otherwise;
  otherwise.add_input("level", {DType::i64, {}});
  otherwise.add_output("y", otherwise.add_input("x", {DType::f32, {n}}));
  const ValueId condition = builder.equal(level, builder.scalar(DType::i64, depth));
  const ValueId more = builder.add(x, builder.scalar(DType::f32, depth));
  const Values results = builder.conditional(builder.equal(condition, builder.scalar(DType::boolean, 0)),
                                             nested(depth - 1), std::move(otherwise), {level, more});
  REQUIRE(builder.status());
  graph.add_output("y", results[0]);
  return graph;
}

TEST_CASE("branches sixteen deep") {
  Model model(nested(16));
  for (const std::int64_t level : {0, 1, 8, 15, 16}) model.checked({number(level), normal({33})});
}

TEST_CASE("a carried value grows; zero trips give back what came in") {
  Model model(test::kGrowing);
  for (const std::int64_t trips : {3, 0, 1, 40, -5, 3}) {
    for (const std::int64_t n : {2, 0, 17}) {
      const auto got = model.checked({number(trips), normal({n})});
      EXPECT((got[0].shape() == StaticShape{n * (std::max<std::int64_t>(trips, 0) + 1)}));
    }
  }
}

TEST_CASE("a loop runs past one stretch of iteration numbers") {
  Model model(test::kGrowing);
  const auto got = model.checked({number(2500), normal({1})});
  EXPECT(got[2].values<std::int64_t>()[2499] == 4998);
}

TEST_CASE("a condition ends a loop early") {
  Model model(test::kUntil);
  const HostTensor x = HostTensor::of<float>({5, 2}, {1, 10, 2, 20, 3, 30, 4, 40, 5, 50});
  for (const float end : {1.0F, 3.0F, 5.0F, 9.0F}) {
    const auto got = model.checked({x, floats({end, 0}), truth(true)});
    EXPECT((got[2].shape() == StaticShape{std::min<std::int64_t>(static_cast<std::int64_t>(end), 5), 2}));
  }
  EXPECT((model.checked({x, floats({3, 0}), truth(false)})[2].shape() == StaticShape{0, 2}));
  EXPECT((model.checked({normal({0, 2}), floats({3, 0}), truth(true)})[2].shape() == StaticShape{0, 2}));
  EXPECT((model.checked({normal({300, 2}), floats({99, 0}), truth(true)})[2].shape() == StaticShape{300, 2}));
}

TEST_CASE("loops in loops: captures from two levels up, and carried values that change places") {
  Model model(test::kTwoLevels);
  for (const auto& [a, b] : {std::pair{4, 5}, {1, 40}, {0, 3}, {7, 0}, {4, 5}})
    model.checked({normal({a, b}), normal({b}, 2), normal({b}, 3)});
}

std::vector<HostTensor> scan_inputs(std::int64_t t, std::int64_t n) {
  return {normal({t, n, 8}, 1), normal({t, n, 8}, 2), normal({t, n, 1}, 3), normal({8, 8}, 4),
          normal({n, 8}, 5)};
}

TEST_CASE("a scan over three inputs, for every size, with the same bits for any number of threads") {
  std::optional<HostTensor> first;
  for (const int threads : {1, 2, 3, 7}) {
    Model model(test::kScan, threads);
    for (const auto& [t, n] : {std::pair{3, 2}, {0, 4}, {5, 0}, {2, 5}}) model.checked(scan_inputs(t, n));
    const auto got = model.run(scan_inputs(100, 9));
    REQUIRE(got);
    if (!first) first = (*got)[1];
    EXPECT((*got)[1].same_bits(*first));
  }
}

// The cpu's table with counters in front.
struct Calls {
  std::atomic<int> syncs, allocations, uploads, launches;
};
Calls& calls() {
  static Calls counted;
  return counted;
}
diji_device_plugin_table counting_table() {
  static const diji_device_plugin_table real = *built_in_plugins()[0];
  diji_device_plugin_table table = real;
  table.stream_sync = [](diji_stream* stream) {
    ++calls().syncs;
    return real.stream_sync(stream);
  };
  table.alloc = [](diji_device* device, std::uint64_t bytes, diji_buffer** out) {
    ++calls().allocations;
    return real.alloc(device, bytes, out);
  };
  table.copy_to_device = [](diji_stream* stream, diji_place dst, const void* src, std::uint64_t bytes) {
    ++calls().uploads;
    return real.copy_to_device(stream, dst, src, bytes);
  };
  table.launch = [](diji_stream* stream, diji_module* module, const diji_launch* launch) {
    ++calls().launches;
    return real.launch(stream, module, launch);
  };
  return table;
}

TEST_CASE("a pure scan waits for the host once, and uploads nothing but its inputs") {
  const test::ScratchCache cache;
  const diji_device_plugin_table table = counting_table();
  const diji_device_plugin_table* const tables[] = {&table};
  DeviceList devices(tables, 2);
  const auto session = Session::of(devices, test::graph_from(test::kScan), {});
  REQUIRE_MESSAGE(session, session.error().message);
  const auto run = [&](std::int64_t steps) {
    const auto inputs = scan_inputs(steps, 2);
    const auto& ports = (*session)->graph().inputs();
    std::map<std::string, HostTensor> named;
    for (std::size_t i = 0; i < inputs.size(); ++i) named[ports[i].name] = inputs[i];
    REQUIRE((*session)->run(named));
  };
  run(100);
  calls().syncs = calls().allocations = calls().uploads = calls().launches = 0;
  run(100);
  EXPECT(calls().syncs == 1);
  EXPECT(calls().allocations == 0);
  EXPECT(calls().uploads == 5 + 1);  // and the error word
  EXPECT(calls().launches >= 100);
  calls().syncs = 0;
  run(5000);
  EXPECT(calls().syncs < 20);
}

HostTensor sizes(std::int64_t a, std::int64_t b) { return HostTensor::of<std::int64_t>({2}, {a, b}); }

TEST_CASE("a size from data becomes a shape; one executable serves all of them") {
  std::string text(test::kObserved);
  text.erase(text.find("  %d = "), text.find("  output") - text.find("  %d = "));
  Model model(text);
  EXPECT((model.checked({normal({6}), sizes(1, 3)})[1].shape() == StaticShape{3}));
  EXPECT((model.checked({normal({40}), sizes(3, 10)})[0].shape() == StaticShape{4, 10}));
  EXPECT((model.checked({normal({0}), sizes(4, 0)})[0].shape() == StaticShape{5, 0}));
  EXPECT((model.checked({normal({0}), sizes(-1, 7)})[1].shape() == StaticShape{7}));
  const auto refusal = [&](std::int64_t a, std::int64_t b) {
    const auto refused = model.run({normal({6}), sizes(a, b)});
    REQUIRE_FALSE(refused);
    return refused.error();
  };
  EXPECT(refusal(1, 4).code == ErrorCode::mismatch);
  EXPECT(refusal(-3, -3).code == ErrorCode::mismatch);
  EXPECT(refusal(1000, 1).code == ErrorCode::data);
  EXPECT(refusal(1000, 1).message.contains("1001"));
  EXPECT((model.checked({normal({6}), sizes(5, 1)})[0].shape() == StaticShape{6, 1}));
}

TEST_CASE("how many elements are true is known behind the kernel that counts them") {
  Model model(test::kCounted);
  for (const auto& [n, t] : {std::pair{50, 3}, {0, 2}, {7, 0}, {1000, 40}, {1, 1}, {50, 3}}) {
    for (const bool condition : {true, false}) {
      const HostTensor x = normal({n});
      const auto got = model.checked({x, normal({t, 1}, 7), truth(condition)});
      const auto above = std::ranges::count_if(x.values<float>(), [](float v) { return v > 0; });
      EXPECT((got[0].shape() == StaticShape{above}));
      EXPECT((got[4].shape() == StaticShape{condition ? above : 1}));
    }
  }
  const auto executable =
      std::shared_ptr<const Executable>(&model.session().executable(), [](const auto*) {});
  const auto checks = verify_kernels(executable, std::vector{normal({50}), normal({3, 1}, 7), truth(true)});
  REQUIRE_MESSAGE(checks, checks.error().message);
  for (const KernelCheck& check : *checks) {
    CAPTURE(check.operators);
    CAPTURE(check.comparison.problem);
    EXPECT(check.comparison.ok);
  }
}

// An integer division in front of the decision: where it fails, what it left must not steer.
constexpr std::string_view kSteered = R"(graph "steered" {
  input %a "a" : i64[1]
  input %b "b" : i64[1]
  input %x "x" : f32[1]
  %q = prim.divide(%a, %b)
  %r = prim.reshape(%q) {shape = dims[]}
  %y, %s = prim.loop(%r, _, %x) {carried = 1, conditional = 0, scanned = 0} graph "body" {
    input %i "i" : i64[]
    input %x "x" : f32[1]
    %y = prim.add(%x, %x)
    output "x" = %y
    output "s" = %y
  }
  output "y" = %y
  output "s" = %s
})";

TEST_CASE("what a failed kernel left never steers, and the next run is clean") {
  Model model(kSteered);
  const auto integer = [](std::int64_t v) { return HostTensor::of<std::int64_t>({1}, {v}); };
  EXPECT((model.checked({integer(9), integer(3), floats({1})})[1].shape() == StaticShape{3, 1}));
  const auto bad = model.run({integer(9), integer(0), floats({1})});
  REQUIRE_FALSE(bad);
  EXPECT(bad.error().code == ErrorCode::data);
  EXPECT(bad.error().message.contains("division by zero"));
  EXPECT((model.checked({integer(9), integer(2), floats({1})})[1].shape() == StaticShape{4, 1}));
}

TEST_CASE("a loop that needs more memory than there is leaves the session usable") {
  Model model(test::kGrowing, 2, 300'000);
  REQUIRE(model.run({number(3), normal({100})}));
  const auto refused = model.run({number(1000), normal({100})});
  REQUIRE_FALSE(refused);
  EXPECT(refused.error().code == ErrorCode::out_of_memory);
  model.checked({number(3), normal({100})});
  // As many slices as nobody can hold.
  const auto endless = model.run({number(std::int64_t{1} << 62), normal({100})});
  REQUIRE_FALSE(endless);
  model.checked({number(3), normal({100})});
}

TEST_CASE("many runs hold what one run held") {
  for (const std::string_view text : {test::kBranches, test::kScan, test::kTwoLevels, test::kGrowing}) {
    Model model(text);
    const auto inputs = [&]() -> std::vector<HostTensor> {
      if (text == test::kBranches) return {truth(true), normal({64})};
      if (text == test::kScan) return scan_inputs(20, 4);
      if (text == test::kTwoLevels) return {normal({4, 16}), normal({16}, 2), normal({16}, 3)};
      return {number(20), normal({16})};
    }();
    REQUIRE(model.run(inputs));
    REQUIRE(model.run(inputs));  // buffers that grew in the first run have their size now
    const std::uint64_t used = model.session().pool().state().used_bytes, peak = model.stats().peak_bytes;
    for (int i = 0; i < 50; ++i) REQUIRE(model.run(inputs));
    EXPECT(model.session().pool().state().used_bytes == used);
    EXPECT(model.stats().peak_bytes == peak);
    EXPECT(peak > 0);
  }
}

TEST_CASE("many threads on one session with loops get the bits of one") {
  Model model(test::kUntil);
  const HostTensor x = normal({50, 2}), end = floats({99, 99});
  const auto alone = model.run({x, end, truth(true)});
  REQUIRE(alone);
  std::atomic<int> equal = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int run = 0; run < 20; ++run) {
        const auto got = model.session().run({{"x", x}, {"end", end}, {"first", truth(true)}});
        equal += got && (*got)[2].same_bits((*alone)[2]) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(equal == 160);
}

TEST_CASE("kernels in bodies are checked, timed and counted") {
  Model model(test::kTwoLevels);
  const std::vector<HostTensor> inputs = {normal({4, 5}), normal({5}, 2), normal({5}, 3)};
  const auto executable =
      std::shared_ptr<const Executable>(&model.session().executable(), [](const auto*) {});
  const auto checks = verify_kernels(executable, inputs);
  REQUIRE_MESSAGE(checks, checks.error().message);
  EXPECT(checks->size() >= 3);
  for (const KernelCheck& check : *checks) {
    CAPTURE(check.comparison.problem);
    EXPECT(check.comparison.ok);
  }
  REQUIRE(model.run(inputs, {.timed = true}));
  EXPECT(model.stats().kernels.size() >= 4 * 3);
  EXPECT(model.session().coverage().generated == 6);
}

TEST_CASE("a second compilation of a model with bodies compiles nothing") {
  const test::ScratchCache cache;
  DeviceList devices(built_in_plugins(), 2);
  const auto compiled = [&] {
    return Session::of(devices, test::graph_from(test::kTwoLevels), {})
        .value()
        ->executable()
        .compiled_kernels;
  };
  EXPECT(compiled() > 0);
  EXPECT(compiled() == 0);
}

}  // namespace
}  // namespace diji
