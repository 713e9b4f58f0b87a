// The virtual accelerator: real results, simulated times that are exact and repeat, and faults that arrive as
// errors with names while other devices work on.
#include "graph/builder.h"
#include "plugins/cpu/cpu_plugin.h"
#include "plugins/sim/sim_card.h"
#include "plugins/sim/sim_plugin.h"
#include "runtime/compiler.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/expect.h"

#include <array>
#include <cmath>
#include <numeric>
#include <thread>

namespace diji {
namespace {

/// The devices of one machine whose virtual accelerators a file describes.
struct Machine {
  explicit Machine(std::string_view card)
      : environment("DIJI_SIM", folder.write("card.txt", card).string()) {}
  Device& open(std::string_view name) {
    auto device = list.open(name);
    REQUIRE_MESSAGE(device, (device ? "" : device.error().message));
    return **device;
  }
  test::ScratchFolder folder;
  test::ScopedEnvironment environment;
  std::array<const diji_device_plugin_table*, 2> tables = {diji_plugin_cpu(),
                                                           diji_plugin_sim(diji_plugin_cpu())};
  DeviceList list{tables, 2};
};

constexpr std::int64_t kCount = 1000;

/// y = x·x + x on the device, for x = first, first + 1, ...
Result<std::vector<float>> square_plus(Device& device, float first) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {Dim::symbol("n")}});
  Builder builder(graph);
  graph.add_output("y", builder.add(builder.multiply(x, x), x));
  CompileCache cache("");  // none
  const auto executable = TRY(compile(std::move(graph), device, cache, {}));
  const auto context = TRY(ExecutionContext::create(executable, device.default_pool()));
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), first);
  const std::vector<HostTensor> inputs = {HostTensor::of<float>({kCount}, values)};
  const auto outputs = TRY(context->run(inputs));
  const auto result = outputs[0].values<float>();
  return std::vector<float>(result.begin(), result.end());
}

bool is_square_plus(const Result<std::vector<float>>& got, float first) {
  if (!got || got->size() != kCount) return false;
  for (std::size_t i = 0; i < got->size(); ++i) {
    const float x = first + static_cast<float>(i);
    if ((*got)[i] != x * x + x) return false;
  }
  return true;
}

TEST_CASE("eight cards on two threads compute the right numbers at once") {
  Machine machine("# nothing but defaults");
  std::array<Device*, 8> cards{};
  for (std::size_t i = 0; i < cards.size(); ++i) cards[i] = &machine.open(fmt::format("sim:{}", i));
  EXPECT_FALSE(machine.list.open("sim:8"));
  std::array<bool, 8> right{};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < cards.size(); ++i)
    threads.emplace_back(
        [&, i] { right[i] = is_square_plus(square_plus(*cards[i], static_cast<float>(i)), float(i)); });
  for (std::thread& thread : threads) thread.join();
  for (const bool one : right) EXPECT(one);
  EXPECT(cards[7]->info().memory_bytes == 32'000'000'000);
  EXPECT(cards[7]->plugin().device_state(7).utilisation > 0);
}

/// What the events around some copies tell, on a device opened through the table.
std::array<std::uint64_t, 3> simulated_copies(DeviceList& list) {
  const diji_device_plugin_table& t = *diji_plugin_sim(diji_plugin_cpu());
  diji_device* device = nullptr;
  diji_stream* stream = nullptr;
  diji_buffer* buffer = nullptr;
  std::array<diji_event*, 4> events{};
  REQUIRE(t.open(0, list.services(), &device) == DIJI_OK);
  REQUIRE(t.stream_new(device, &stream) == DIJI_OK);
  REQUIRE(t.alloc(device, 4000, &buffer) == DIJI_OK);
  for (auto& event : events) REQUIRE(t.event_new(device, &event) == DIJI_OK);
  std::vector<std::byte> host(2000);
  EXPECT(t.event_record(events[0], stream) == DIJI_OK);
  EXPECT(t.copy_to_device(stream, {buffer, 0}, host.data(), 2000) == DIJI_OK);
  EXPECT(t.event_record(events[1], stream) == DIJI_OK);
  EXPECT(t.copy_on_device(stream, {buffer, 2000}, {buffer, 0}, 2000) == DIJI_OK);
  EXPECT(t.event_record(events[2], stream) == DIJI_OK);
  EXPECT(t.copy_to_host(stream, host.data(), {buffer, 0}, 1000) == DIJI_OK);
  EXPECT(t.event_record(events[3], stream) == DIJI_OK);
  EXPECT(t.stream_sync(stream) == DIJI_OK);
  std::array<std::uint64_t, 3> took{};
  for (std::size_t i = 0; i < took.size(); ++i)
    EXPECT(t.event_elapsed_ns(events[i], events[i + 1], &took[i]) == DIJI_OK);
  EXPECT(t.event_elapsed_ns(events[1], events[0], took.data() + 0) == DIJI_ERROR_INVALID);
  for (auto* event : events) t.event_free(event);
  t.free(device, stream, buffer);
  t.stream_free(stream);
  t.close(device);
  return took;
}

TEST_CASE("simulated times are what the card says, exactly, every time") {
  const std::string card =
      "link_bytes_per_s = 1e9\nlink_latency_ns = 700\nbytes_per_s = 2e9\n"
      "launch_latency_ns = 50";
  Machine machine(card);
  // 2000 B at 1 B/ns + 700; 2000 B read and written at 2 B/ns + 50; 1000 B at 1 B/ns + 700.
  const std::array<std::uint64_t, 3> wanted = {2700, 2050, 1700};
  for (int i = 0; i < 3; ++i) EXPECT(simulated_copies(machine.list) == wanted);
  machine.folder.write("card.txt", card + "\nslow = 3");
  EXPECT(simulated_copies(machine.list) == std::array<std::uint64_t, 3>{8100, 6150, 5100});
}

TEST_CASE("a launch takes the longer of its arithmetic and its memory, after what is in front of it") {
  sim::CardClock clock({.flops_per_s = 1e9, .bytes_per_s = 1e9, .launch_latency_ns = 10});
  EXPECT(clock.launch(0, 500, 200) == 510);      // by arithmetic
  EXPECT(clock.launch(0, 500, 2000) == 2520);    // another stream's work is in front; by memory
  EXPECT(clock.launch(5000, 100, 100) == 5110);  // its own stream is busy until then
  clock.host_waits_until(9000);                  // nothing can be submitted in the past
  EXPECT(clock.launch(0, 100, 100) == 9110);
  EXPECT(clock.link_copy(0, 25000) == 9000 + 5000 + 1000);  // the link is another engine
}

TEST_CASE("each thread of the host has a time of its own") {
  sim::CardClock clock({.flops_per_s = 1e9, .launch_latency_ns = 10});
  std::thread([&] {
    clock.host_waits_until(7000);
    EXPECT(clock.host_ns() == 7000);
  }).join();
  EXPECT(clock.host_ns() == 0);
  EXPECT(clock.latest_ns() == 7000);
  EXPECT(clock.launch(0, 100, 0) == 110);  // the other thread's wait holds up nobody
}

TEST_CASE("an exchange begins when the last is ready, and its thread goes on when it is over") {
  sim::CardClock clock({.peer_bytes_per_s = 1e9, .peer_latency_ns = 50});
  EXPECT(clock.exchange(1000, 400, 3) == 1000 + 400 + 3 * 50);
  EXPECT(clock.host_ns() == 1550);
  EXPECT(clock.exchange(0, 100, 1) == 1550 + 100 + 50);  // the links are busy until then
  Machine machine("peer_bytes_per_s = 1e9\npeer_latency_ns = 50\nslow = 2\nfault_device = 1\n");
  Device& device = machine.open("sim:0");
  const diji_exchange exchange{
      .struct_size = sizeof(diji_exchange), .messages = 3, .bytes = 400, .begin_ns = 1000};
  EXPECT(device.exchanged(nullptr) == 0u);
  EXPECT(device.exchanged(&exchange) == 1550u);
  EXPECT(device.exchanged(nullptr) == 1550u);
  EXPECT(machine.open("sim:1").exchanged(&exchange) == 1000u + 2 * 550);
  EXPECT(machine.open("cpu").exchanged(nullptr).error().code == ErrorCode::unsupported);
}

TEST_CASE("work heats, rest cools, and a hot card throttles") {
  sim::CardClock clock({.flops_per_s = 1e9,
                        .launch_latency_ns = 0,
                        .temperature_idle_c = 20,
                        .temperature_busy_c = 100,
                        .temperature_time_s = 1,
                        .throttle_c = 60,
                        .throttle_share = 0.5});
  EXPECT(clock.clock_mhz() == 1500);
  EXPECT(clock.launch(0, 1'000'000'000, 0) == 1'000'000'000);
  EXPECT(clock.temperature_c() == doctest::Approx(100 - 80 * std::exp(-1.0)));  // 70.6 degrees
  EXPECT(clock.clock_mhz() == 750);
  EXPECT(clock.launch(0, 1'000'000'000, 0) == 3'000'000'000);  // at half the clock
  clock.host_waits_until(13'000'000'000);
  EXPECT(clock.temperature_c() < 20.1);
  EXPECT(clock.launch(0, 1'000'000'000, 0) == 14'000'000'000);
}

TEST_CASE("a card's file is refused by line and key") {
  const auto refusal = [](std::string_view text) {
    const auto card = sim::parse_card(text, "card.txt");
    return card ? std::string() : card.error().message;
  };
  EXPECT(sim::parse_card("devices = 2 # two\n\n memory_bytes=1e6\n", "f")->memory_bytes == 1e6);
  EXPECT(refusal("\nmemory = 3").contains("card.txt:2: there is no key 'memory'"));
  EXPECT(refusal("devises = 3").contains("did you mean devices?"));
  EXPECT(refusal("devices").contains("card.txt:1: 'devices' is no key = value"));
  EXPECT(refusal("devices = many").contains("devices: 'many' is no number"));
  EXPECT(refusal("devices = nan").contains("not from 0 to 64"));
  EXPECT(refusal("slow = 0.5").contains("slow: 0.5 is not from 1"));
  Machine machine("devices = 100");
  REQUIRE(machine.list.problems().size() == 1);
  EXPECT(machine.list.problems()[0].message.contains("devices: 100 is not from 0 to 64"));
}

TEST_CASE("each fault arrives as an error with a name, and the other devices work on") {
  struct Fault {
    const char* card;
    ErrorCode code;
    const char* words;
  };
  const std::array faults = {
      Fault{"fail_alloc = 1", ErrorCode::out_of_memory, ""},
      Fault{"memory_bytes = 1000", ErrorCode::out_of_memory, "of 1000 bytes are left"},
      Fault{"fail_launch = 1", ErrorCode::device, "(fail_launch = 1 of DIJI_SIM)"},
      Fault{"dead_after = 3", ErrorCode::device, "sim:1 is lost (dead_after = 3 of DIJI_SIM)"},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.card);
    Machine machine(fmt::format("fault_device = 1\n{}", fault.card));
    const bool everywhere = std::string_view(fault.card).starts_with("memory");
    const auto failed = square_plus(machine.open("sim:1"), 1);
    if (std::string_view(fault.card) == "fail_alloc = 1") {
      EXPECT(failed);  // the pool tries a smaller block; the next test asks the table itself
    } else {
      REQUIRE_FALSE(failed);
      EXPECT(failed.error().code == fault.code);
      CAPTURE(failed.error().message);
      EXPECT(failed.error().message.contains(fault.words));
    }
    if (!everywhere) EXPECT(is_square_plus(square_plus(machine.open("sim:0"), 2), 2));
    EXPECT(is_square_plus(square_plus(machine.open("cpu"), 3), 3));
  }
}

TEST_CASE("the k-th allocation fails and the next one succeeds; one bit of one copy is wrong") {
  Machine machine("fail_alloc = 2\nflip_bit = 2");
  const diji_device_plugin_table& t = *diji_plugin_sim(diji_plugin_cpu());
  diji_device* device = nullptr;
  diji_stream* stream = nullptr;
  std::array<diji_buffer*, 3> buffers{};
  REQUIRE(t.open(0, machine.list.services(), &device) == DIJI_OK);
  REQUIRE(t.stream_new(device, &stream) == DIJI_OK);
  EXPECT(t.alloc(device, 64, &buffers[0]) == DIJI_OK);
  EXPECT(t.alloc(device, 64, &buffers[1]) == DIJI_ERROR_OUT_OF_MEMORY);
  EXPECT(std::string_view(t.last_error()).contains("fail_alloc = 2"));
  EXPECT(t.alloc(device, 64, &buffers[2]) == DIJI_OK);
  const std::array<unsigned char, 64> sent{};
  EXPECT(t.copy_to_device(stream, {buffers[0], 0}, sent.data(), 64) == DIJI_OK);
  for (const int wrong : {0, 1, 0}) {
    std::array<unsigned char, 64> received{};
    EXPECT(t.copy_to_host(stream, received.data(), {buffers[0], 0}, 64) == DIJI_OK);
    EXPECT(t.stream_sync(stream) == DIJI_OK);
    EXPECT(std::accumulate(received.begin(), received.end(), 0) == wrong);
  }
  for (auto* buffer : {buffers[0], buffers[2]}) t.free(device, stream, buffer);
  t.stream_free(stream);
  t.close(device);
}

}  // namespace
}  // namespace diji
