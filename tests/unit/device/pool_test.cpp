// The memory pool against a model of it, at its limits, under threads, and switched off.
#include "device/device.h"
#include "plugins/cpu/cpu_plugin.h"
#include "plugins/mock/mock_plugin.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/expect.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DIJI_TEST_ASAN 1
#endif
#endif
#if defined(DIJI_TEST_ASAN) || defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define DIJI_TEST_ASAN 1
#endif

namespace diji {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

/// A list with one device, opened.
struct Opened {
  const diji_device_plugin_table* table;
  DeviceList list{std::span(&table, 1), 1};
  Device& device() { return **list.open(table->name); }
};

std::byte* address(Device& device, const Buffer& buffer) {
  void* pointer = nullptr;
  REQUIRE(device.plugin().table().map(buffer.place().buffer, &pointer) == DIJI_OK);
  return static_cast<std::byte*>(pointer) + buffer.place().offset;
}

/// Buffers that a test holds, with the tag it wrote into each: the model of the pool.
struct Held {
  Buffer buffer;
  std::byte tag;
};

/// No two held buffers share a byte, and each still has its tag in every byte.
void expect_disjoint(Device& device, const std::vector<Held>& held) {
  std::map<std::byte*, std::byte*> ranges;
  for (const Held& each : held) {
    std::byte* begin = address(device, each.buffer);
    if (each.buffer.bytes() != 0) ranges[begin] = begin + each.buffer.bytes();
    EXPECT(std::all_of(begin, begin + each.buffer.bytes(), [&](std::byte b) { return b == each.tag; }));
  }
  std::byte* last_end = nullptr;
  for (const auto& [begin, end] : ranges) {
    EXPECT(begin >= last_end);
    last_end = end;
  }
}

TEST_CASE("random allocations never overlap, are aligned, and are counted") {
  Opened opened{diji_plugin_cpu()};
  Device& device = opened.device();
  constexpr std::uint64_t kLimit = 8 * kMiB;
  MemoryPool pool(device, "model", kLimit);
  std::mt19937 random(20260601);
  std::vector<Held> held;
  std::uint64_t peak = 0;
  int refused = 0;
  for (int step = 0; step < 20'000; ++step) {
    const bool add = held.empty() || (held.size() < 200 && random() % 2 == 0);
    if (add) {
      const std::uint64_t bytes = random() % (std::uint64_t{1} << (random() % 21));
      auto buffer = pool.allocate(bytes);
      if (!buffer) {
        EXPECT(buffer.error().code == ErrorCode::out_of_memory);
        ++refused;
        continue;
      }
      EXPECT(buffer->bytes() == bytes);
      EXPECT(buffer->place().offset % device.info().alignment == 0);
      const auto tag = static_cast<std::byte>(random() % 256);
      if (bytes != 0) std::memset(address(device, *buffer), static_cast<int>(tag), bytes);
      held.push_back({std::move(*buffer), tag});
    } else {
      std::swap(held[random() % held.size()], held.back());
      held.pop_back();
    }
    std::uint64_t used = 0;
    for (const Held& each : held) used += std::max<std::uint64_t>((each.buffer.bytes() + 63) / 64 * 64, 64);
    peak = std::max(peak, used);
    const PoolState state = pool.state();
    EXPECT(state.used_bytes == used);
    EXPECT(state.held_bytes >= used);
    EXPECT(state.held_bytes <= kLimit);
    EXPECT(state.peak_bytes == peak);
    if (step % 1000 == 0) expect_disjoint(device, held);
  }
  EXPECT(refused > 0);  // the limit was met, and the pool went on
  expect_disjoint(device, held);
  held.clear();
  EXPECT(pool.state().used_bytes == 0);
  EXPECT(pool.state().held_bytes > 0);  // freed memory stays
  const std::uint64_t before = pool.state().held_bytes;
  {
    const auto again = pool.allocate(kMiB);
  }
  EXPECT(pool.state().held_bytes == before);
  pool.trim();
  EXPECT(pool.state().held_bytes == 0);
}

TEST_CASE("the smallest chunk that fits is taken, and neighbours grow together") {
  Opened opened{diji_plugin_mock()};
  MemoryPool pool(opened.device(), "fit");
  auto a = pool.allocate(1024).value();
  auto b = pool.allocate(64).value();
  auto c = pool.allocate(256).value();
  auto d = pool.allocate(64).value();
  const auto place_of_a = a.place();
  const auto place_of_c = c.place();
  a = Buffer();
  c = Buffer();
  const auto small = pool.allocate(200).value();
  EXPECT(small.place().offset == place_of_c.offset);
  const auto large = pool.allocate(1000).value();
  EXPECT(large.place().offset == place_of_a.offset);
  EXPECT(pool.state().held_bytes == 2 * kMiB);
}

TEST_CASE("limits: the error has the numbers, and the pool stays usable") {
  Opened opened{diji_plugin_mock()};
  MemoryPool pool(opened.device(), "small", 4 * kMiB);
  const auto first = pool.allocate(3 * kMiB).value();
  const auto refused = pool.allocate(2 * kMiB);
  REQUIRE_FALSE(refused);
  EXPECT(refused.error().code == ErrorCode::out_of_memory);
  EXPECT(refused.error().bytes == 2 * kMiB);
  EXPECT(refused.error().message.starts_with(
      "pool 'small' of mock:0: asked 2097152 bytes, used 3145728, held 3145728, limit 4194304: "));
  EXPECT(refused.error().pool == "small of mock:0: used 3145728, held 3145728, peak 3145728, limit 4194304");
  EXPECT(pool.allocate(kMiB));
  pool.set_limit(8 * kMiB);
  EXPECT(pool.allocate(2 * kMiB));
  EXPECT_FALSE(pool.allocate(UINT64_MAX));
  EXPECT_FALSE(pool.allocate(std::uint64_t{1} << 60));
}

TEST_CASE("unused blocks are given back before a request fails") {
  Opened opened{diji_plugin_mock()};
  MemoryPool pool(opened.device(), "tight", 4 * kMiB);
  {
    const auto gone = pool.allocate(3 * kMiB);
  }
  EXPECT(pool.state().held_bytes == 3 * kMiB);
  const auto whole = pool.allocate(4 * kMiB);
  EXPECT(whole);
  EXPECT(pool.state().held_bytes == 4 * kMiB);
}

TEST_CASE("a device without memory says so through the pool") {
  Opened opened{diji_plugin_mock()};  // 1 GiB
  MemoryPool& pool = opened.device().default_pool();
  const auto refused = pool.allocate(2048 * kMiB);
  REQUIRE_FALSE(refused);
  EXPECT(refused.error().message.contains("pool 'default' of mock:0: asked 2147483648 bytes"));
  EXPECT(refused.error().message.contains("limit none: mock:0: alloc: alloc: 1073741824 bytes are left"));
  EXPECT(pool.allocate(kMiB));
  Opened host{diji_plugin_cpu()};
  EXPECT(host.device().default_pool().allocate(std::uint64_t{1} << 50).error().code ==
         ErrorCode::out_of_memory);
}

TEST_CASE("a buffer of no bytes has a place; moved buffers go back once") {
  Opened opened{diji_plugin_mock()};
  MemoryPool pool(opened.device(), "empty");
  auto a = pool.allocate(0).value();
  EXPECT(a.place().buffer != nullptr);
  EXPECT(a.bytes() == 0);
  Buffer b(std::move(a));
  a = std::move(b);
  b = pool.allocate(10).value();
  EXPECT(pool.state().used_bytes == 128);
  a = std::move(b);  // the first goes back here
  EXPECT(pool.state().used_bytes == 64);
  EXPECT(test::aborts([&] {
    MemoryPool early(opened.device(), "early");
    a = early.allocate(1).value();
  }));
}

TEST_CASE("DIJI_POOL=off takes and returns each buffer at the device") {
  const test::ScopedEnvironment off("DIJI_POOL", "off");
  Opened opened{diji_plugin_mock()};
  MemoryPool pool(opened.device(), "off", kMiB);
  auto a = pool.allocate(100).value();
  const auto b = pool.allocate(100).value();
  EXPECT(a.place().buffer != b.place().buffer);
  EXPECT(pool.state().held_bytes == 256);
  EXPECT_FALSE(pool.allocate(kMiB));
  a = Buffer();
  EXPECT(pool.state().held_bytes == 128);
  EXPECT(pool.state().used_bytes == 128);
}

TEST_CASE("threads share a pool, and none is refused because another was quicker") {
  Opened opened{diji_plugin_cpu()};
  MemoryPool pool(opened.device(), "shared");
  std::vector<std::thread> threads;
  std::vector<int> refused(4, 0);
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&pool, &refused, seed] {
      std::mt19937 random(seed);
      std::vector<Buffer> held;
      for (int step = 0; step < 2000; ++step) {
        // Half of them need a block of their own, so that the threads meet where blocks are added.
        auto buffer = pool.allocate(step % 2 == 0 ? 2 * kMiB : random() % 300'000);
        refused[seed] += !buffer;
        if (buffer) held.push_back(std::move(*buffer));
        if (held.size() > 8) held.erase(held.begin() + static_cast<std::ptrdiff_t>(random() % held.size()));
        if (step % 50 == 0) pool.trim();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(refused == std::vector<int>(4, 0));
  EXPECT(pool.state().used_bytes == 0);
  pool.trim();
  EXPECT(pool.state().held_bytes == 0);
}

#if defined(DIJI_TEST_ASAN)
TEST_CASE("AddressSanitizer sees the bounds of a buffer and that it is gone") {
  Opened opened{diji_plugin_cpu()};
  Device& device = opened.device();
  MemoryPool pool(device, "poisoned");
  auto buffer = pool.allocate(100).value();
  std::byte* begin = address(device, buffer);
  EXPECT_FALSE(__asan_address_is_poisoned(begin + 99));
  EXPECT(__asan_address_is_poisoned(begin + 100));
  buffer = Buffer();
  EXPECT(__asan_address_is_poisoned(begin));
}
#endif

}  // namespace
}  // namespace diji
