// The plugins cuda and hip against the fake driver and compiler of tests/fake_gpu, which the library path of
// this test names.
#include "device/device.h"
#include "plugins/cuda_like/cuda_like_plugin.h"
#include "tests/unit/expect.h"

#include <array>
#include <cstdlib>
#include <numeric>
#include <string_view>

namespace diji {
namespace {

struct Opened {
  std::array<const diji_device_plugin_table*, 1> tables = {diji_plugin_cuda()};
  DeviceList devices{tables, 2};
  Device& first() {
    auto device = devices.open("cuda:0");
    REQUIRE_MESSAGE(device.has_value(), (device ? std::string() : device.error().message));
    return **device;
  }
};

constexpr std::string_view kTwice = R"(
extern "C" __global__ __launch_bounds__(128)
void diji_twice(unsigned char* m0, long o0, long s0, long s1, unsigned char* em, long eo,
                unsigned char* scratch, long stride, long count) {
  const long id = (long)blockIdx.x * 128 + threadIdx.x, items = (long)gridDim.x * 128;
  for (long i = id; i < count; i += items) ((int*)(m0 + o0))[i] = 2 * ((int*)(m0 + o0))[i] + (int)(s0 + s1);
}
namespace diji { using ::diji_twice; })";

TEST_CASE("what is copied to a CUDA device and changed there comes back") {
  Opened opened;
  Device& device = opened.first();
  EXPECT(device.info().simt);
  EXPECT(device.info().dialect == "cuda-mma");  // the fake chip is an sm_80
  auto stream = device.new_stream();
  auto buffer = device.default_pool().allocate(8192);
  auto word = device.default_pool().allocate(64);
  REQUIRE(stream);
  REQUIRE(buffer);
  REQUIRE(word);
  std::vector<std::int32_t> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  REQUIRE(stream->copy_to_device(buffer->place(64), std::as_bytes(std::span(numbers))));
  const auto blob = device.compile(kTwice);
  REQUIRE_MESSAGE(blob.has_value(), (blob ? std::string() : blob.error().message));
  const auto module = device.load(*blob);
  REQUIRE_MESSAGE(module.has_value(), (module ? std::string() : module.error().message));
  const diji_place place = buffer->place(64);
  const std::array<std::int64_t, 2> sizes = {5, 7};
  diji_launch launch{};
  launch.struct_size = sizeof(launch);
  launch.entry = "twice";
  launch.grid = 1000;
  launch.places = &place;
  launch.place_count = 1;
  launch.sizes = sizes.data();
  launch.size_count = 2;
  launch.error_word = word->place();
  launch.local_bytes = 100;
  REQUIRE(module->launch(*stream, launch));
  std::vector<std::int32_t> back(1000);
  REQUIRE(stream->copy_to_host(std::as_writable_bytes(std::span(back)), buffer->place(64)));
  REQUIRE(stream->sync());
  for (std::size_t i = 0; i < back.size(); ++i) REQUIRE(back[i] == 2 * numbers[i] + 12);
  launch.entry = "thrice";
  const auto unknown = module->launch(*stream, launch);
  REQUIRE(!unknown);
  EXPECT(unknown.error().message.find("thrice") != std::string::npos);
}

TEST_CASE("text that is no CUDA and code that is none are refused in words") {
  Opened opened;
  Device& device = opened.first();
  const auto text = device.compile("this is no kernel");
  REQUIRE(!text);
  EXPECT(text.error().message.find("error:") != std::string::npos);
  const auto blob = device.compile(kTwice);
  REQUIRE(blob);
  std::vector<std::byte> cut(blob->begin(), blob->begin() + static_cast<std::ptrdiff_t>(blob->size() / 2));
  EXPECT(!device.load(cut).has_value());
  EXPECT(!device.load(std::as_bytes(std::span("not an object"))).has_value());
}

TEST_CASE("too much memory is refused and leaves the device usable") {
  Opened opened;
  Device& device = opened.first();
  const auto huge = device.default_pool().allocate(std::uint64_t{1} << 50);
  REQUIRE(!huge);
  EXPECT(huge.error().code == ErrorCode::out_of_memory);
  EXPECT(device.default_pool().allocate(4096).has_value());
}

TEST_CASE("events of a CUDA device measure and order") {
  const diji_device_plugin_table& table = *diji_plugin_cuda();
  diji_device* device = nullptr;
  diji_stream* stream = nullptr;
  diji_event *from = nullptr, *to = nullptr;
  REQUIRE(table.open(0, nullptr, &device) == DIJI_OK);
  REQUIRE(table.stream_new(device, &stream) == DIJI_OK);
  REQUIRE(table.event_new(device, &from) == DIJI_OK);
  REQUIRE(table.event_new(device, &to) == DIJI_OK);
  std::uint64_t elapsed_ns = 0;
  EXPECT(table.event_elapsed_ns(from, to, &elapsed_ns) == DIJI_ERROR_INVALID);
  EXPECT(table.event_wait(from, stream) == DIJI_OK);  // never recorded: nothing to wait for
  EXPECT(table.event_record(from, stream) == DIJI_OK);
  EXPECT(table.event_record(to, stream) == DIJI_OK);
  EXPECT(table.event_sync(to) == DIJI_OK);
  EXPECT(table.event_elapsed_ns(from, to, &elapsed_ns) == DIJI_OK);
  table.event_free(from);
  table.event_free(to);
  table.stream_free(stream);
  table.close(device);
}

TEST_CASE("a driver without a device says so, and that is no refusal") {
  REQUIRE(setenv("FAKE_GPU_DEVICES", "0", 1) == 0);
  const std::array<const diji_device_plugin_table*, 1> tables = {diji_plugin_hip()};
  DeviceList devices(tables, 1);
  EXPECT(devices.entries().empty());
  REQUIRE(unsetenv("FAKE_GPU_DEVICES") == 0);
  EXPECT(devices.problems().empty());
  REQUIRE(devices.absent().size() == 1);
  EXPECT(devices.absent()[0] == "hip: the driver shows no device");
}

}  // namespace
}  // namespace diji
