// What streams and events promise, on a device that works at once (cpu) and on one that works late (mock).
#include "plugins/cpu/cpu_plugin.h"
#include "plugins/mock/mock_plugin.h"
#include "tests/unit/expect.h"

#include <cstdint>
#include <string_view>

namespace diji {
namespace {

// The tables are called directly: events have no type in device/ yet.
struct Raw {
  const diji_device_plugin_table& table;
  diji_device* device = nullptr;
  diji_buffer* buffer = nullptr;

  explicit Raw(const diji_device_plugin_table* plugin) : table(*plugin) {
    static const diji_host_services host = {
        sizeof(diji_host_services), nullptr, nullptr, 1, nullptr, nullptr};
    REQUIRE(table.open(0, &host, &device) == DIJI_OK);
    REQUIRE(table.alloc(device, 64, &buffer) == DIJI_OK);
  }
  ~Raw() {
    table.free(device, nullptr, buffer);
    table.close(device);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  diji_stream* stream() {
    diji_stream* stream = nullptr;
    REQUIRE(table.stream_new(device, &stream) == DIJI_OK);
    return stream;
  }
  diji_event* event() {
    diji_event* event = nullptr;
    REQUIRE(table.event_new(device, &event) == DIJI_OK);
    return event;
  }
};

TEST_CASE("an event orders two streams, and the host waits for the event alone") {
  for (const auto* plugin : {diji_plugin_cpu(), diji_plugin_mock()}) {
    Raw raw(plugin);
    const auto& table = raw.table;
    diji_stream* producer = raw.stream();
    diji_stream* consumer = raw.stream();
    diji_event* written = raw.event();
    const std::uint32_t sent = 42;
    std::uint32_t received = 0;
    EXPECT(table.event_wait(written, consumer) == DIJI_OK);  // never recorded: nothing to wait for
    EXPECT(table.event_sync(written) == DIJI_OK);
    EXPECT(table.copy_to_device(producer, {raw.buffer, 8}, &sent, 4) == DIJI_OK);
    EXPECT(table.event_record(written, producer) == DIJI_OK);
    EXPECT(table.event_wait(written, consumer) == DIJI_OK);
    EXPECT(table.copy_to_host(consumer, &received, {raw.buffer, 8}, 4) == DIJI_OK);
    EXPECT(table.stream_sync(consumer) == DIJI_OK);  // the producer itself is never synchronised
    EXPECT(received == 42);

    const std::uint32_t again = 43;
    EXPECT(table.copy_to_device(producer, {raw.buffer, 8}, &again, 4) == DIJI_OK);
    EXPECT(table.copy_to_host(producer, &received, {raw.buffer, 8}, 4) == DIJI_OK);
    EXPECT(table.event_record(written, producer) == DIJI_OK);
    EXPECT(table.event_sync(written) == DIJI_OK);
    EXPECT(received == 43);
    table.event_free(written);
    table.stream_free(producer);
    table.stream_free(consumer);
  }
}

TEST_CASE("freeing a stream finishes its work, and memory freed on it lives as long as that needs") {
  for (const auto* plugin : {diji_plugin_cpu(), diji_plugin_mock()}) {
    Raw raw(plugin);
    const auto& table = raw.table;
    diji_stream* stream = raw.stream();
    diji_buffer* short_lived = nullptr;
    REQUIRE(table.alloc(raw.device, 8, &short_lived) == DIJI_OK);
    const std::uint64_t sent = 0x1122334455667788;
    std::uint64_t received = 0;
    EXPECT(table.copy_to_device(stream, {short_lived, 0}, &sent, 8) == DIJI_OK);
    EXPECT(table.copy_on_device(stream, {raw.buffer, 0}, {short_lived, 0}, 8) == DIJI_OK);
    table.free(raw.device, stream, short_lived);
    EXPECT(table.copy_to_host(stream, &received, {raw.buffer, 0}, 8) == DIJI_OK);
    table.stream_free(stream);
    EXPECT(received == sent);
  }
}

TEST_CASE("the mock is late, and its fresh memory is not zero") {
  Raw raw(diji_plugin_mock());
  const auto& table = raw.table;
  diji_stream* stream = raw.stream();
  std::uint32_t received = 0;
  EXPECT(table.copy_to_host(stream, &received, {raw.buffer, 0}, 4) == DIJI_OK);
  EXPECT(received == 0);
  EXPECT(table.stream_sync(stream) == DIJI_OK);
  EXPECT(received == 0xCDCDCDCD);
  table.stream_free(stream);
}

TEST_CASE("elapsed time is between two recorded events") {
  Raw raw(diji_plugin_cpu());
  const auto& table = raw.table;
  diji_stream* stream = raw.stream();
  diji_event* from = raw.event();
  diji_event* to = raw.event();
  std::uint64_t elapsed = 0;
  EXPECT(table.event_elapsed_ns(from, to, &elapsed) == DIJI_ERROR_INVALID);
  EXPECT(std::string_view(table.last_error()).contains("never recorded"));
  EXPECT(table.event_record(from, stream) == DIJI_OK);
  EXPECT(table.event_record(to, stream) == DIJI_OK);
  EXPECT(table.event_elapsed_ns(from, to, &elapsed) == DIJI_OK);
  EXPECT(elapsed < 1'000'000'000);
  table.event_free(from);
  table.event_free(to);
  table.stream_free(stream);
}

TEST_CASE("a failure on a CPU stream stays until sync, which reports it once") {
  Raw raw(diji_plugin_cpu());
  const auto& table = raw.table;
  diji_stream* stream = raw.stream();
  std::uint32_t word = 0;
  EXPECT(table.copy_to_host(stream, &word, {raw.buffer, 62}, 4) == DIJI_ERROR_INVALID);
  EXPECT(table.copy_to_host(stream, &word, {raw.buffer, 0}, 4) == DIJI_ERROR_INVALID);
  EXPECT(table.stream_sync(stream) == DIJI_ERROR_INVALID);
  EXPECT(std::string_view(table.last_error()) ==
         "copy_to_host: 4 bytes at offset 62 are outside a buffer of 64 bytes");
  EXPECT(table.stream_sync(stream) == DIJI_OK);
  EXPECT(table.copy_to_host(stream, &word, {raw.buffer, 0}, 4) == DIJI_OK);
  table.stream_free(stream);
}

TEST_CASE("imported host memory is used in place and released once") {
  Raw raw(diji_plugin_cpu());
  const auto& table = raw.table;
  const std::uint32_t word = 5;
  int released = 0;
  diji_buffer* imported = nullptr;
  const auto release = [](void* context) { ++*static_cast<int*>(context); };
  REQUIRE(table.import_host(raw.device, &word, 4, release, &released, &imported) == DIJI_OK);
  void* address = nullptr;
  EXPECT(table.map(imported, &address) == DIJI_OK);
  EXPECT(address == &word);
  table.free(raw.device, nullptr, imported);
  EXPECT(released == 1);
  EXPECT(table.import_host(raw.device, nullptr, 4, nullptr, nullptr, &imported) == DIJI_ERROR_INVALID);
}

TEST_CASE("an older caller's smaller property record is not written past its end") {
  for (const auto* plugin : {diji_plugin_cpu(), diji_plugin_mock()}) {
    diji_device_properties properties{};
    properties.struct_size = offsetof(diji_device_properties, vector_registers);
    properties.vector_registers = 0xabcdef;
    EXPECT(plugin->device_properties(0, &properties) == DIJI_OK);
    EXPECT(properties.alignment == 64);
    EXPECT(properties.vector_registers == 0xabcdef);
    EXPECT(plugin->device_properties(7, &properties) == DIJI_ERROR_INVALID);
    EXPECT_FALSE(std::string_view(plugin->last_error()).empty());
  }
}

}  // namespace
}  // namespace diji
