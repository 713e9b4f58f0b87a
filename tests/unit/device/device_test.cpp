// Opening devices by name, copies and their order, constants, and what a tier 0 device answers to kernels.
#include "device/device.h"
#include "plugins/cpu/cpu_plugin.h"
#include "plugins/mock/mock_plugin.h"
#include "tests/unit/expect.h"

#include <array>
#include <cstring>
#include <vector>

namespace diji {
namespace {

constexpr std::size_t kCount = 1000;

struct Devices {
  std::array<const diji_device_plugin_table*, 2> tables = {diji_plugin_cpu(), diji_plugin_mock()};
  DeviceList list{tables, 2};
  Device& open(std::string_view name) { return **list.open(name); }
};

std::vector<float> iota(float first) {
  std::vector<float> values(kCount);
  for (float& value : values) value = first++;
  return values;
}

TEST_CASE("devices are opened by name, once") {
  Devices devices;
  REQUIRE(devices.list.entries().size() == 3);
  EXPECT(devices.list.problems().empty());
  Device& cpu = devices.open("cpu");
  EXPECT(cpu.name() == "cpu:0");
  EXPECT(&cpu == &devices.open("cpu:0"));
  EXPECT(&devices.open("mock:1") != &devices.open("mock:0"));
  EXPECT(cpu.threads().threads() == 2);
  EXPECT(cpu.plugin().tier() == 1);
  EXPECT(cpu.info().host_visible);
  EXPECT(cpu.default_pool().name() == "default");
}

TEST_CASE("an unknown device: the error lists what there is and what was meant") {
  Devices devices;
  const auto unknown = devices.list.open("mack:1");
  REQUIRE_FALSE(unknown);
  EXPECT(unknown.error().code == ErrorCode::no_device);
  EXPECT(
      unknown.error().message ==
      "there is no device 'mack:1'; there is cpu:0, mock:0, mock:1, and no plugin 'mack' (one is loaded by "
      "--plugin LIB, or from DIJI_PLUGIN_PATH) (did you mean mock:1?)");
  EXPECT(devices.list.open("cqu").error().message.ends_with("(did you mean cpu?)"));
  EXPECT(devices.list.open("").error().message == "there is no device ''; there is cpu:0, mock:0, mock:1");
  EXPECT_FALSE(devices.list.open("cpu:1"));
  EXPECT_FALSE(devices.list.open("cpu:00"));
}

TEST_CASE("a plugin without devices is told of, with its reason or that it gives none") {
  diji_device_plugin_table none = *diji_plugin_mock();
  none.device_count = [](std::int32_t* count) {
    *count = 0;
    return DIJI_OK;
  };
  none.last_error = []() -> const char* { return "the card is in another slot"; };
  const diji_device_plugin_table* const tables[] = {&none};
  EXPECT(DeviceList(tables, 1).absent() == std::vector<std::string>{"mock: the card is in another slot"});
  none.last_error = []() -> const char* { return ""; };
  EXPECT(DeviceList(tables, 1).absent() ==
         std::vector<std::string>{"mock: it reports 0 devices; its last_error() gives no reason"});
}

TEST_CASE("copies go there and back on every device") {
  Devices devices;
  for (const char* name : {"cpu", "mock:0", "mock:1"}) {
    CAPTURE(name);
    Device& device = devices.open(name);
    MemoryPool& pool = device.default_pool();
    const std::vector<float> sent = iota(1);
    std::vector<float> received(kCount);
    const auto a = pool.allocate(kCount * sizeof(float)).value();
    const auto b = pool.allocate(kCount * sizeof(float)).value();
    Stream stream = device.new_stream().value();
    EXPECT(stream.copy_to_device(a.place(), std::as_bytes(std::span(sent))));
    EXPECT(stream.copy_on_device(b.place(4), a.place(0), (kCount - 1) * 4));
    EXPECT(stream.copy_on_device(b.place(0), a.place((kCount - 1) * 4), 4));
    EXPECT(stream.copy_to_host(std::as_writable_bytes(std::span(received)), b.place()));
    EXPECT(stream.copy_to_device(a.place(), {}));
    EXPECT(stream.sync());
    EXPECT(received[0] == sent[kCount - 1]);
    EXPECT(std::equal(received.begin() + 1, received.end(), sent.begin()));
  }
}

TEST_CASE("the mock finds a missing sync") {
  Devices devices;
  Device& mock = devices.open("mock");
  const auto buffer = mock.default_pool().allocate(4).value();
  Stream stream = mock.new_stream().value();
  const std::uint32_t sent = 7;
  std::uint32_t received = 0;
  EXPECT(stream.copy_to_device(buffer.place(), std::as_bytes(std::span(&sent, 1))));
  EXPECT(stream.copy_to_host(std::as_writable_bytes(std::span(&received, 1)), buffer.place()));
  EXPECT(received == 0);  // nobody has waited
  EXPECT(stream.sync());
  EXPECT(received == 7);
}

TEST_CASE("copies out of range are refused") {
  Devices devices;
  for (const char* name : {"cpu", "mock"}) {
    Device& device = devices.open(name);
    Stream stream = device.new_stream().value();
    const auto owned = device.default_pool().allocate(64).value();
    std::array<std::byte, 64> host{};
    const auto refused = stream.copy_to_device(owned.place(std::uint64_t{1} << 40), host);
    REQUIRE_FALSE(refused);
    EXPECT(refused.error().code == ErrorCode::device);
    EXPECT(refused.error().message.contains("copy to the device"));
    (void)stream.sync();
    EXPECT_FALSE(stream.copy_to_host(host, diji_place{nullptr, 0}));
    (void)stream.sync();
    EXPECT_FALSE(stream.copy_on_device(owned.place(), owned.place(UINT64_MAX - 8), 16));
    (void)stream.sync();
    EXPECT(stream.copy_to_host(host, owned.place()));
    EXPECT(stream.sync());  // `host` must not go while the mock still has to fill it
  }
}

TEST_CASE("constants are used in place where the device can, else copied") {
  Devices devices;
  const HostTensor tensor = HostTensor::of<float>({4}, {1, 2, 3, 4});
  Device& cpu = devices.open("cpu");
  const Constant in_place = cpu.import_constant(tensor).value();
  void* pointer = nullptr;
  REQUIRE(cpu.plugin().table().map(in_place.place().buffer, &pointer) == DIJI_OK);
  EXPECT(pointer == tensor.bytes().data());

  Device& mock = devices.open("mock");
  const Constant copied = mock.import_constant(tensor).value();
  std::array<float, 4> back{};
  Stream stream = mock.new_stream().value();
  EXPECT(stream.copy_to_host(std::as_writable_bytes(std::span(back)), copied.place()));
  EXPECT(stream.sync());
  EXPECT(back == std::array<float, 4>{1, 2, 3, 4});

  const HostTensor empty = HostTensor::of<float>({0}, std::initializer_list<float>{});
  EXPECT(cpu.import_constant(empty).value().place().buffer != nullptr);
}

TEST_CASE("a constant at an odd address is copied") {
  Devices devices;
  Device& cpu = devices.open("cpu");
  alignas(8) static std::array<std::byte, 9> file{};
  std::memset(file.data() + 1, 1, 8);
  const auto bytes = std::span<const std::byte>(file).subspan(1);
  const Constant constant = cpu.import_constant(HostTensor::view(DType::f32, {2}, bytes, nullptr)).value();
  const diji_place place = constant.place();
  void* pointer = nullptr;
  REQUIRE(cpu.plugin().table().map(place.buffer, &pointer) == DIJI_OK);
  const auto* copy = static_cast<const std::byte*>(pointer) + place.offset;
  EXPECT(copy != bytes.data());
  EXPECT(std::memcmp(copy, bytes.data(), bytes.size()) == 0);
}

TEST_CASE("a tier 0 device answers unsupported to kernels") {
  Devices devices;
  Device& mock = devices.open("mock");
  const auto blob = mock.compile("define void @f() { ret void }");
  REQUIRE_FALSE(blob);
  EXPECT(blob.error().code == ErrorCode::unsupported);
  EXPECT(blob.error().message == "mock:0: compile: plugin mock (tier 0) does not offer compile");
  EXPECT(mock.load({}).error().code == ErrorCode::unsupported);
}

}  // namespace
}  // namespace diji
