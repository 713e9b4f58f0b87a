// Models with collectives: N ranks give what the interpreter says, with and without overlap the same bits, on
// every device; what goes wrong on one rank is an error on all.
#include "plugins/cpu/cpu_plugin.h"
#include "plugins/sim/sim_plugin.h"
#include "runtime/compiler.h"
#include "runtime/device_collective.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/collective/thread_world.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/runtime/fixture.h"

#include "tests/unit/random_graph.h"

#include <array>
#include <chrono>
#include <thread>

namespace diji {
namespace {

using collective::Communicator;

struct Devices {
  test::ScratchFolder folder;
  test::ScopedEnvironment environment{"DIJI_SIM", folder.write("card.txt", "devices = 8\n").string()};
  std::array<const diji_device_plugin_table*, 2> tables = {diji_plugin_cpu(),
                                                           diji_plugin_sim(diji_plugin_cpu())};
  DeviceList list{tables, 2};
  CompileCache cache{""};  // none
  Device& open(std::string_view name) { return **list.open(name); }
};

using Outputs = std::vector<HostTensor>;

/// One run of every rank of a mesh "data" x "model" (row-major), each on a thread of its own.
class Mesh {
 public:
  Mesh(int data, int model, collective::CommunicatorOptions options = {}) : data_(data), model_(model) {
    for (int i = 0; i < data; ++i)
      models_.push_back(std::make_unique<collective::ThreadWorld>(model, options));
    for (int i = 0; i < model; ++i)
      datas_.push_back(std::make_unique<collective::ThreadWorld>(data, options));
  }
  int ranks() const { return data_ * model_; }
  std::vector<MeshAxis> axes() const { return {{"data", data_}, {"model", model_}}; }

  /// `of_rank` has the executable and its groups, and says what it gives.
  template <typename Body>
  void run(const std::vector<Device*>& devices, DeviceGroupOptions options, Body&& of_rank) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks(); ++rank) {
      threads.emplace_back([&, rank] {
        const int i = rank / model_, j = rank % model_;
        auto data = Communicator::create(datas_[static_cast<std::size_t>(j)]->group(i), {});
        auto model = Communicator::create(models_[static_cast<std::size_t>(i)]->group(j), {});
        CHECK(data && model, "communicators of threads");
        Device& device = *devices[static_cast<std::size_t>(rank) % devices.size()];
        auto along_data = DeviceGroup::create(device, **data, options);
        auto along_model = DeviceGroup::create(device, **model, options);
        CHECK(along_data && along_model, "groups of threads");
        of_rank(rank, device,
                std::map<std::string, DeviceGroup*, std::less<>>{{"data", along_data->get()},
                                                                 {"model", along_model->get()}});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int data_, model_;
  std::vector<std::unique_ptr<collective::ThreadWorld>> datas_, models_;
};

void check_random(Devices& devices, const std::vector<Device*>& cards, DeviceGroupOptions options,
                  std::uint64_t seed) {
  INFO("DIJI_TEST_SEED=", seed);
  const test::RandomGraph random(seed, {.steps = static_cast<int>(4 + seed % 12), .collectives = true});
  CAPTURE(print(random.graph()));
  Mesh mesh(test::kDataRanks, test::kModelRanks);
  std::vector<std::vector<HostTensor>> inputs;
  for (int rank = 0; rank < mesh.ranks(); ++rank) inputs.push_back(random.inputs_of(rank));
  const Graph* const graphs[] = {&random.graph()};
  const auto wanted = interpret_ranks_with_bounds(graphs, mesh.axes(), inputs);
  REQUIRE_MESSAGE(wanted, wanted.error().message);
  std::map<Device*, std::shared_ptr<const Executable>> executables;
  for (Device* card : cards) {
    if (executables.contains(card)) continue;
    auto compiled = compile(random.graph(), *card, devices.cache, {});
    REQUIRE_MESSAGE(compiled, compiled.error().message);
    executables.emplace(card, *compiled);
  }
  std::vector<std::array<Result<Outputs>, 3>> got(static_cast<std::size_t>(mesh.ranks()));
  mesh.run(cards, options, [&](int rank, Device& device, auto groups) {
    const auto at = static_cast<std::size_t>(rank);
    auto context = ExecutionContext::create(executables.at(&device), device.default_pool());
    CHECK(context, "a context");
    for (std::size_t i = 0; i < 3; ++i)  // the second without overlap, the third as the first
      got[at][i] = (*context)->run(inputs[at], {.groups = groups, .overlap = i != 1});
  });
  for (std::size_t rank = 0; rank < got.size(); ++rank) {
    CAPTURE(rank);
    for (const auto& run : got[rank]) REQUIRE_MESSAGE(run, run.error().message);
    for (std::size_t i = 0; i < got[rank][0]->size(); ++i) {
      CAPTURE(i);
      EXPECT(test::difference((*got[rank][0])[i], (*wanted)[rank][i]) == "");
      EXPECT((*got[rank][0])[i].same_bits((*got[rank][1])[i]));
      EXPECT((*got[rank][0])[i].same_bits((*got[rank][2])[i]));
    }
  }
}

TEST_CASE("random graphs of six ranks on the CPU") {
  Devices devices;
  const std::vector<Device*> cards = {&devices.open("cpu")};
  test::for_each_seed(40, [&](std::uint64_t seed) { check_random(devices, cards, {}, seed); });
}

TEST_CASE("random graphs of six ranks on virtual accelerators, in small slices") {
  Devices devices;
  std::vector<Device*> cards;
  for (int i = 0; i < 6; ++i) cards.push_back(&devices.open(fmt::format("sim:{}", i)));
  test::for_each_seed(8,
                      [&](std::uint64_t seed) { check_random(devices, cards, {.slice_bytes = 96}, seed); });
}

TEST_CASE("random graphs of six ranks on devices of two kinds") {
  Devices devices;
  const std::vector<Device*> cards = {&devices.open("cpu"), &devices.open("sim:1"), &devices.open("sim:2")};
  test::for_each_seed(6, [&](std::uint64_t seed) { check_random(devices, cards, {}, seed); });
}

/// y = 2 · the sum of all x, beside which z = exp(x) · 2 is computed.
Graph sum_graph(std::string_view ranks) {
  return test::graph_from(fmt::format(R"(graph "sum" {{
    symbol N in [0, 1099511627776]
    symbol W in [1, 64]
    input %x "x" : f32[N]
    %r = prim.all_reduce(%x) {{channel = 0, group = "data", kind = "sum", ranks = dims[{}]}}
    %y = prim.add(%r, %r)
    %z = prim.exp(%x)
    %zz = prim.add(%z, %z)
    output "y" = %y
    output "z" = %zz
  }})",
                                      ranks));
}

struct Ranks {
  Devices devices;
  Device& device = devices.open("cpu");
  std::shared_ptr<const Executable> compiled(const Graph& graph) {
    auto executable = compile(graph, device, devices.cache, {});
    REQUIRE_MESSAGE(executable, (executable ? "" : executable.error().message));
    return *executable;
  }
  std::unique_ptr<ExecutionContext> context(const std::shared_ptr<const Executable>& executable) {
    return ExecutionContext::create(executable, device.default_pool()).value();
  }
};

const std::vector<HostTensor> kThree = {HostTensor::of<float>({3}, {1, 2, 3})};

TEST_CASE("one executable serves every number of ranks, also one alone") {
  Ranks ranks;
  const auto executable = ranks.compiled(sum_graph("W"));
  const auto alone = ranks.context(executable)->run(kThree);
  REQUIRE_MESSAGE(alone, (alone ? "" : alone.error().message));
  EXPECT((*alone)[0].same_bits(HostTensor::of<float>({3}, {2, 4, 6})));
  for (const int world : {2, 5}) {
    std::atomic<int> right = 0;
    collective::ThreadWorld(world).run([&](Communicator& communicator) {
      auto group = DeviceGroup::create(ranks.device, communicator).value();
      const auto outputs = ranks.context(executable)->run(kThree, {.groups = {{"data", group.get()}}});
      const auto n = static_cast<float>(2 * world);
      right += outputs && (*outputs)[0].same_bits(HostTensor::of<float>({3}, {n, 2 * n, 3 * n})) ? 1 : 0;
    });
    EXPECT(right == world);
  }
}

TEST_CASE("a model of several ranks says what it misses") {
  Ranks ranks;
  const auto executable = ranks.compiled(sum_graph("4"));
  const auto context = ranks.context(executable);
  const auto none = context->run(kThree);
  REQUIRE_FALSE(none);
  EXPECT(none.error().code == ErrorCode::usage);
  EXPECT(none.error().message ==
         "the model's group 'data' is of 4 ranks: this run was given none for it (RunOptions::groups)");
  std::atomic<int> right = 0;
  collective::ThreadWorld(2).run([&](Communicator& communicator) {
    auto group = DeviceGroup::create(ranks.device, communicator).value();
    const auto two = ranks.context(executable)->run(kThree, {.groups = {{"data", group.get()}}});
    right +=
        !two && two.error().message == "the model's group 'data' is of 4 ranks: the one given for it has 2"
            ? 1
            : 0;
    Device& other = ranks.devices.open("sim:0");
    auto elsewhere = DeviceGroup::create(other, communicator).value();
    const auto wrong = ranks.context(executable)->run(kThree, {.groups = {{"data", elsewhere.get()}}});
    right +=
        !wrong && wrong.error().message == "the ranks given for group 'data' are on sim:0, the model on cpu:0"
            ? 1
            : 0;
  });
  EXPECT(right == 4);
}

TEST_CASE("a rank that does not run the model is a deadline of the others, by name") {
  Ranks ranks;
  const auto executable = ranks.compiled(sum_graph("2"));
  std::atomic<int> right = 0;
  collective::ThreadWorld(2, {.timeout_us = 300'000}).run([&](Communicator& communicator) {
    auto group = DeviceGroup::create(ranks.device, communicator).value();
    if (communicator.rank() == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(700));
    const auto outputs = ranks.context(executable)->run(kThree, {.groups = {{"data", group.get()}}});
    right += !outputs && outputs.error().code == ErrorCode::deadline && outputs.error().peer.rank == 1 &&
                     outputs.error().message.starts_with("all_reduce in group 'data', channel 0")
                 ? 1
                 : 0;
  });
  EXPECT(right == 1);
}

TEST_CASE("sizes that differ between ranks are an error of all") {
  Ranks ranks;
  const auto executable = ranks.compiled(sum_graph("W"));
  std::atomic<int> right = 0;
  collective::ThreadWorld(2, {.timeout_us = 5'000'000}).run([&](Communicator& communicator) {
    auto group = DeviceGroup::create(ranks.device, communicator).value();
    const std::vector<HostTensor> four = {HostTensor::of<float>({4}, {1, 2, 3, 4})};
    const auto outputs =
        ranks.context(executable)
            ->run(communicator.rank() == 0 ? kThree : four, {.groups = {{"data", group.get()}}});
    right += !outputs && outputs.error().code == ErrorCode::call_mismatch ? 1 : 0;
  });
  EXPECT(right == 2);
}

TEST_CASE("a rank whose run fails on the way ends the others at once") {
  Ranks ranks;
  // Data tell a size that is out of range on rank 1, before its collective.
  const auto executable = ranks.compiled(test::graph_from(R"(graph "told" {
    symbol M in [0, 4]
    input %n "n" : i64[1]
    input %x "x" : f32[3]
    %m = prim.observe(%n) {symbols = dims[M]}
    %i = prim.iota() {axis = 0, dtype = i64, shape = dims[M]}
    %r = prim.all_reduce(%x) {channel = 0, group = "data", kind = "sum", ranks = dims[2]}
    %y = prim.exp(%r)
    output "i" = %i
    output "y" = %y
  })"));
  std::array<ErrorCode, 2> codes{};
  std::array<std::string, 2> messages;
  const auto begin = std::chrono::steady_clock::now();
  collective::ThreadWorld(2).run([&](Communicator& communicator) {
    auto group = DeviceGroup::create(ranks.device, communicator).value();
    const std::vector<HostTensor> inputs = {
        HostTensor::of<std::int64_t>({1}, {communicator.rank() == 1 ? 99 : 2}), kThree[0]};
    const auto outputs = ranks.context(executable)->run(inputs, {.groups = {{"data", group.get()}}});
    const auto at = static_cast<std::size_t>(communicator.rank());
    if (outputs) return;
    codes[at] = outputs.error().code;
    messages[at] = outputs.error().message;
  });
  EXPECT(codes[1] == ErrorCode::data);
  EXPECT(codes[0] == ErrorCode::aborted);
  CAPTURE(messages[0]);
  EXPECT(messages[0].contains("rank 1's run failed"));
  EXPECT(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE("an error that kernels report at the end leaves the group good") {
  Ranks ranks;
  const auto executable = ranks.compiled(test::graph_from(R"(graph "divides" {
    input %a "a" : i32[2]
    %one = constant i32[2] {7, 7}
    %q = prim.divide(%one, %a)
    %r = prim.all_reduce(%q) {channel = 0, group = "data", kind = "sum", ranks = dims[2]}
    output "y" = %r
  })"));
  std::atomic<int> right = 0;
  collective::ThreadWorld(2).run([&](Communicator& communicator) {
    auto group = DeviceGroup::create(ranks.device, communicator).value();
    const auto context = ranks.context(executable);
    for (const int divisor : {communicator.rank(), 1}) {  // rank 0 divides by 0 first
      const std::vector<HostTensor> inputs = {HostTensor::of<std::int32_t>({2}, {divisor, 1})};
      const auto outputs = context->run(inputs, {.groups = {{"data", group.get()}}});
      const bool fails = divisor == 0;
      right += fails == !outputs ? 1 : 0;
      if (!fails && communicator.rank() == 0)
        right += (*outputs)[0].same_bits(HostTensor::of<std::int32_t>({2}, {14, 14})) ? 1 : 0;
    }
  });
  EXPECT(right == 5);
}

TEST_CASE("collectives in the body of a loop, once an iteration") {
  Ranks ranks;
  Graph body;
  {
    Builder b(body);
    body.add_input("i", {DType::i64, {}});
    const ValueId x = body.add_input("x", {DType::i32, {2}});
    body.add_output("x", b.add(b.all_reduce(x, Reduction::sum, {"data", 0, 3}), b.scalar(DType::i32, 1)));
  }
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::i32, {2}}),
                limit = graph.add_input("limit", {DType::i64, {}});
  graph.add_output("y", b.loop(limit, ValueId::none, {x}, {}, {}, std::move(body))[0]);
  REQUIRE(b.ok());
  const auto executable = ranks.compiled(graph);
  std::atomic<int> right = 0;
  collective::ThreadWorld(3).run([&](Communicator& communicator) {
    auto group = DeviceGroup::create(ranks.device, communicator).value();
    const std::vector<HostTensor> inputs = {HostTensor::of<std::int32_t>({2}, {communicator.rank(), 1}),
                                            HostTensor::of<std::int64_t>({}, {3})};
    const auto outputs = ranks.context(executable)->run(inputs, {.groups = {{"data", group.get()}}});
    // 0+1+2 = 3, 4; 12, 13; 39, 40: and 3, 4; 12, 13; 39, 40
    right += outputs && (*outputs)[0].same_bits(HostTensor::of<std::int32_t>({2}, {40, 40})) ? 1 : 0;
  });
  EXPECT(right == 3);
}

TEST_CASE("a session passes its ranks on, and observed steps come one after the other") {
  Ranks ranks;
  const auto session = Session::of(ranks.devices.list, sum_graph("W"), {.device = "cpu"});
  REQUIRE_MESSAGE(session, (session ? "" : session.error().message));
  std::atomic<int> right = 0;
  collective::ThreadWorld(2).run([&](Communicator& communicator) {
    auto group = DeviceGroup::create(ranks.device, communicator).value();
    int seen = 0;
    RunOptions options{.groups = {{"data", group.get()}}};
    options.observer = [&](const Observation& observation) -> Result<void> {
      if (observation.step.kind != Step::Kind::exchange) return {};
      ++seen;
      const HostTensor reduced = TRY(observation.read(observation.step.value));
      right += reduced.same_bits(HostTensor::of<float>({3}, {2, 4, 6})) ? 1 : 0;
      return {};
    };
    const auto outputs = (*session)->run({{"x", kThree[0]}}, nullptr, options);
    right += outputs && seen == 1 ? 1 : 0;
  });
  EXPECT(right == 4);
  EXPECT((*session)->coverage().rows.size() > 0);
}

}  // namespace
}  // namespace diji
