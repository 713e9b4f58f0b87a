// Tables that lie: each is refused with a sentence that names the fault, and the other devices go on.
#include "device/device.h"
#include "device/plugin.h"
#include "plugins/mock/mock_plugin.h"
#include "tests/unit/expect.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

namespace diji {
namespace {

using Table = diji_device_plugin_table;

// A table's functions have no context: what the next one shall answer stands here.
std::int32_t told_count = 1;
diji_device_properties told_properties{};
std::uint32_t told_rows = 0;
const diji_kernel_row* told_row = nullptr;

diji_status tell_count(std::int32_t* count) {
  *count = told_count;
  return DIJI_OK;
}
diji_status tell_properties(std::int32_t, diji_device_properties* out) {
  *out = told_properties;
  return DIJI_OK;
}
const diji_kernel_row* tell_rows(std::uint32_t* count) {
  *count = told_rows;
  return told_row;
}

/// A valid table under another name than the mock's.
Table liar() {
  Table table = *diji_plugin_mock();
  table.name = "liar";
  table.device_count = tell_count;
  table.device_properties = tell_properties;
  table.kernels = nullptr;
  told_count = 1;
  told_properties = {};
  REQUIRE(diji_plugin_mock()->device_properties(0, [] {
    told_properties.struct_size = sizeof(told_properties);
    return &told_properties;
  }()) == DIJI_OK);
  return table;
}

std::string refusal(const Table* table) {
  const auto plugin = Plugin::check(table, "liar.so");
  if (plugin) return "";
  EXPECT(plugin.error().code == ErrorCode::no_device);
  EXPECT(plugin.error().message.starts_with("plugin liar.so: "));
  return plugin.error().message;
}

bool has(const std::string& sentence, std::string_view part) { return sentence.contains(part); }

TEST_CASE("a plugin's version and size are checked before anything else is read") {
  EXPECT(has(refusal(nullptr), "returned null"));
  Table table = liar();
  EXPECT(refusal(&table).empty());
  table.struct_size = 0;
  EXPECT(has(refusal(&table), "has 0 bytes"));
  table.struct_size = offsetof(Table, last_error);
  EXPECT(has(refusal(&table), "the required functions need"));
  table = liar();
  for (const int major : {DIJI_DEVICE_ABI_MAJOR - 1, DIJI_DEVICE_ABI_MAJOR + 1}) {
    table.abi_major = static_cast<std::uint16_t>(major);
    EXPECT(has(refusal(&table),
               fmt::format("built for plugin ABI {}.{}, this diji has {}.{}", major, DIJI_DEVICE_ABI_MINOR,
                           DIJI_DEVICE_ABI_MAJOR, DIJI_DEVICE_ABI_MINOR)));
  }
}

TEST_CASE("each required function that is missing is named") {
  constexpr std::array<std::pair<std::size_t, const char*>, 13> kRequired = {
      {{offsetof(Table, device_count), "device_count"},
       {offsetof(Table, device_properties), "device_properties"},
       {offsetof(Table, open), "open"},
       {offsetof(Table, close), "close"},
       {offsetof(Table, alloc), "alloc"},
       {offsetof(Table, free), "free"},
       {offsetof(Table, copy_to_device), "copy_to_device"},
       {offsetof(Table, copy_to_host), "copy_to_host"},
       {offsetof(Table, copy_on_device), "copy_on_device"},
       {offsetof(Table, stream_new), "stream_new"},
       {offsetof(Table, stream_free), "stream_free"},
       {offsetof(Table, stream_sync), "stream_sync"},
       {offsetof(Table, last_error), "last_error"}}};
  for (const auto& [offset, name] : kRequired) {
    Table table = liar();
    std::memset(reinterpret_cast<char*>(&table) + offset, 0, sizeof(void (*)()));
    EXPECT(has(refusal(&table), fmt::format("lacks the required function {}", name)));
  }
}

TEST_CASE("names, half tiers and kernel rows are checked") {
  const std::string endless(5000, 'a');
  const auto fault = [](const std::function<void(Table&)>& change) {
    Table table = liar();
    change(table);
    return refusal(&table);
  };
  EXPECT(has(fault([](Table& t) { t.name = nullptr; }), "its name is a null string"));
  EXPECT(has(fault([](Table& t) { t.name = "Bad Name"; }), "its name 'Bad Name' is not"));
  EXPECT(has(fault([](Table& t) { t.name = ""; }), "its name '' is not"));
  EXPECT(has(fault([&](Table& t) { t.name = endless.c_str(); }), "longer than"));
  EXPECT(has(fault([](Table& t) { t.version = nullptr; }), "its version is a null string"));
  EXPECT(has(fault([](Table& t) { t.build_id = nullptr; }), "its build_id is a null string"));
  EXPECT(has(fault([](Table& t) {
               t.launch = [](diji_stream*, diji_module*, const diji_launch*) { return DIJI_OK; };
             }),
             "offers launch but not unload"));
  EXPECT(has(fault([](Table& t) { t.event_wait = nullptr; }), "some of the event functions"));

  diji_kernel_row row{};
  row.struct_size = sizeof(row);
  told_rows = 1;
  told_row = nullptr;
  EXPECT(has(fault([](Table& t) { t.kernels = tell_rows; }), "kernels() gives 1 rows at null"));
  told_row = &row;
  EXPECT(has(fault([](Table& t) { t.kernels = tell_rows; }), "kernel row 0 lacks"));
  row.dtypes = "f32->f32";
  row.layout = "row_major";
  row.run = [](diji_stream*, const diji_place*, const std::int64_t* const*, const std::uint32_t*,
               std::uint32_t, const void*, std::size_t, diji_place) { return DIJI_OK; };
  EXPECT(has(fault([](Table& t) { t.kernels = tell_rows; }), "kernel row 0 lacks"));  // its op
  row.op = "relu";
  EXPECT(fault([](Table& t) { t.kernels = tell_rows; }).empty());
  row.struct_size = 8;
  EXPECT(has(fault([](Table& t) { t.kernels = tell_rows; }), "kernel row 0 has 8 bytes"));
  row.struct_size = sizeof(row);
  told_rows = 1u << 31;
  EXPECT(has(fault([](Table& t) { t.kernels = tell_rows; }), "kernels() gives 2147483648 rows"));
}

TEST_CASE("a newer table is read as far as it is known, an older one is completed") {
  struct Newer {
    Table table;
    void* function_of_tomorrow;
  };
  Newer newer{liar(), nullptr};
  newer.table.struct_size = sizeof(Newer);
  newer.table.abi_minor = 9;
  EXPECT(refusal(&newer.table).empty());

  // Behind the required functions lies something else: it must not be taken for functions.
  Table older = liar();
  older.struct_size = offsetof(Table, import_host);
  std::memset(&older.import_host, 0xff, sizeof(Table) - offsetof(Table, import_host));
  const auto plugin = Plugin::check(&older, "older.so");
  REQUIRE(plugin);
  EXPECT(plugin->tier() == 0);
  EXPECT(plugin->table().map(nullptr, nullptr) == DIJI_ERROR_UNSUPPORTED);
  EXPECT(plugin->last_error(DIJI_ERROR_UNSUPPORTED) == "plugin liar (tier 0) does not offer map");
  plugin->table().unload(nullptr);
  std::uint32_t count = 7;
  EXPECT(plugin->table().kernels(&count) == nullptr);
  EXPECT(count == 0);
}

TEST_CASE("absurd counts and properties are refused, and other devices still work") {
  using Lie = std::function<void()>;
  const std::pair<Lie, const char*> lies[] = {
      {[] { told_count = -1; }, "says that it has -1 devices"},
      {[] { told_count = 1'000'000; }, "says that it has 1000000 devices"},
      {[] { told_properties.memory_bytes = std::uint64_t{1} << 63; }, "9223372036854775808 bytes of memory"},
      {[] { told_properties.alignment = 0; }, "alignment 0 is not a power of two"},
      {[] { told_properties.alignment = 2; }, "alignment 2 is not"},
      {[] { told_properties.alignment = 48; }, "alignment 48 is not"},
      {[] { told_properties.alignment = 1u << 31; }, "alignment 2147483648 is not"},
      {[] { told_properties.vector_bytes = 0; }, "vector_bytes 0"},
      {[] { told_properties.vector_bytes = 24; }, "vector_bytes 24"},
      {[] { told_properties.vector_registers = 0; }, "vector_registers 0"},
      {[] { told_properties.name = nullptr; }, "its device name is a null string"},
      {[] { told_properties.vendor = nullptr; }, "its vendor is a null string"},
      {[] { told_properties.driver_version = nullptr; }, "its driver version is a null string"},
      {[] { told_properties.features = nullptr; }, "its list of features is a null string"},
      {[] { told_properties.fingerprint = nullptr; }, "its fingerprint is a null string"},
      {[] { told_properties.dialect = nullptr; }, "its dialect is a null string"},
      {[] { told_properties.dialect = "llvm-ir"; },
       "claims the dialect 'llvm-ir' but its table offers no compile"},
      {[] { told_properties = {}; }, "null string"},  // a plugin that fills nothing
  };
  for (const auto& [lie, sentence] : lies) {
    CAPTURE(sentence);
    const Table table = liar();
    lie();
    const diji_device_plugin_table* const built_in[] = {&table, diji_plugin_mock()};
    DeviceList list(built_in, 1);
    REQUIRE(list.problems().size() == 1);
    EXPECT(list.problems()[0].code == ErrorCode::no_device);
    EXPECT(has(list.problems()[0].message, sentence));
    EXPECT(list.entries().size() == 2);
    const auto refused = list.open("liar");
    REQUIRE_FALSE(refused);
    EXPECT(has(refused.error().message, "there is mock:0, mock:1"));
    EXPECT(has(refused.error().message, sentence));
    EXPECT(list.open("mock"));
  }
}

TEST_CASE("failing calls of a plugin become errors with its words") {
  Table table = liar();
  table.open = [](std::int32_t, const diji_host_services*, diji_device**) { return DIJI_ERROR_DEVICE; };
  table.last_error = [] { return "the fan fell off"; };
  const diji_device_plugin_table* const built_in[] = {&table, nullptr};
  DeviceList list(built_in, 1);
  EXPECT(list.problems().size() == 1);  // the null table
  const auto device = list.open("liar:0");
  REQUIRE_FALSE(device);
  EXPECT(device.error().code == ErrorCode::no_device);
  EXPECT(device.error().message == "liar:0: open: the fan fell off");
  EXPECT(has(list.open("liar:1").error().message, "there is no device 'liar:1'; there is liar:0"));

  table.last_error = []() -> const char* { return nullptr; };
  table.device_count = [](std::int32_t*) { return DIJI_ERROR_DEVICE; };
  DeviceList silent(built_in, 1);
  REQUIRE(silent.problems().size() == 2);
  EXPECT(has(silent.problems()[1].message, "device_count failed: status 5 without a reason"));
  EXPECT(has(silent.open("cpu").error().message, "there is none at all"));
}

}  // namespace
}  // namespace diji
