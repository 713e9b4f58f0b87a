// The OpenCL plugin against whatever driver is installed (setup installs PoCL, so there is one).
#include "device/device.h"
#include "plugins/opencl/opencl_plugin.h"
#include "tests/unit/expect.h"

#include <array>
#include <numeric>

namespace diji {
namespace {

struct Opened {
  std::array<const diji_device_plugin_table*, 1> tables = {diji_plugin_opencl()};
  DeviceList devices{tables, 2};
  Device& first() {
    auto device = devices.open("opencl:0");
    REQUIRE_MESSAGE(device.has_value(), (device ? std::string() : device.error().message));
    return **device;
  }
};

constexpr std::string_view kDouble = R"(kernel void diji_twice(global uchar* m0, long o0, long s0, long s1,
    global uchar* em, long eo, global uchar* scratch, long stride, long count) {
  global int* x = (global int*)(m0 + o0);
  for (long i = get_global_id(0); i < count; i += get_global_size(0)) x[i] = (int)(2 * x[i] + s0 + s1);
})";

TEST_CASE("what is copied to an OpenCL device and changed there comes back") {
  Opened opened;
  Device& device = opened.first();
  auto stream = device.new_stream();
  REQUIRE(stream);
  std::vector<std::int32_t> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  auto buffer = device.default_pool().allocate(8192);
  auto word = device.default_pool().allocate(64);
  REQUIRE(buffer);
  REQUIRE(word);
  REQUIRE(stream->copy_to_device(buffer->place(64), std::as_bytes(std::span(numbers))));
  const auto blob = device.compile(kDouble);
  REQUIRE_MESSAGE(blob.has_value(), (blob ? std::string() : blob.error().message));
  // What was built for the blob goes to the first that loads it; any other builds from the blob alone.
  const auto first = device.load(*blob);
  REQUIRE(first);
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
  REQUIRE(module->launch(*stream, launch));
  std::vector<std::int32_t> back(1000);
  REQUIRE(stream->copy_to_host(std::as_writable_bytes(std::span(back)), buffer->place(64)));
  REQUIRE(stream->sync());
  for (std::size_t i = 0; i < back.size(); ++i) REQUIRE(back[i] == 2 * numbers[i] + 12);
  launch.entry = "thrice";
  const auto unknown = module->launch(*stream, launch);
  REQUIRE_FALSE(unknown.has_value());
  EXPECT(unknown.error().message.find("thrice") != std::string::npos);
}

TEST_CASE("a text that the driver refuses is refused with its words, and garbage is no binary") {
  Opened opened;
  Device& device = opened.first();
  const auto refused = device.compile("kernel void broken( { undeclared_thing(); }");
  REQUIRE_FALSE(refused.has_value());
  EXPECT(refused.error().message.find("error") != std::string::npos);
  const std::vector<std::byte> garbage(300, std::byte{0x5a});
  EXPECT_FALSE(device.load(garbage).has_value());
}

TEST_CASE("more memory than one allocation may have is out of memory, and the device goes on") {
  Opened opened;
  Device& device = opened.first();
  const auto huge = device.default_pool().allocate(std::uint64_t{1} << 50);
  REQUIRE_FALSE(huge.has_value());
  EXPECT(huge.error().code == ErrorCode::out_of_memory);
  EXPECT(device.default_pool().allocate(100).has_value());
}

}  // namespace
}  // namespace diji
