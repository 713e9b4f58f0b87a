// The compile cache: good entries are found, bad ones are misses, bad folders are one warning.
#include "runtime/compile_cache.h"
#include "base/files.h"
#include "base/log.h"
#include "tests/unit/runtime/fixture.h"

#include <sys/stat.h>

namespace diji {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> blob_of(std::size_t size) { return std::vector<std::byte>(size, std::byte{0x5a}); }

fs::path only_file(const fs::path& folder) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(folder)) found = entry.path();
  return found;
}

TEST_CASE("what is stored is found again, for the same device only") {
  const test::ScratchCache scratch;
  CompileCache cache;
  const std::string key = CompileCache::key_of("text", "chip");
  EXPECT_FALSE(cache.find(key, "chip").has_value());
  cache.store(key, "kernel", "chip", blob_of(1000));
  EXPECT(cache.find(key, "chip") == blob_of(1000));
  EXPECT_FALSE(cache.find(key, "another chip").has_value());
  EXPECT(CompileCache::key_of("text", "another chip") != key);
  const auto entries = cache.list();
  REQUIRE(entries.has_value());
  REQUIRE(entries->size() == 1);
  EXPECT((*entries)[0].kernel == "kernel");
  EXPECT((*entries)[0].problem.empty());
}

TEST_CASE("every cut and every flipped byte is a miss") {
  const test::ScratchCache scratch;
  CompileCache cache;
  const std::string key = CompileCache::key_of("text", "chip");
  cache.store(key, "kernel", "chip", blob_of(40));
  const fs::path path = only_file(scratch.folder());
  const auto good = read_file(path).value();
  set_log_level(LogLevel::error);  // hundreds of warnings about damaged entries are the point here
  for (std::size_t size = 0; size < good.size(); ++size) {
    REQUIRE(write_file_atomically(path, std::span(good).first(size)).has_value());
    EXPECT_FALSE(cache.find(key, "chip").has_value());
  }
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= std::byte{0x10};
    REQUIRE(write_file_atomically(path, bad).has_value());
    EXPECT_FALSE(cache.find(key, "chip").has_value());
  }
  set_log_level(LogLevel::warning);
  EXPECT_FALSE((*cache.list())[0].problem.empty());
  EXPECT(cache.prune(CompileCache::kBytesMax).value() == 1);
  EXPECT(cache.list()->empty());
}

TEST_CASE("a folder that others may write is not used") {
  const test::ScratchCache scratch;
  REQUIRE(::chmod(scratch.folder().c_str(), 0777) == 0);
  CompileCache cache;
  const std::string key = CompileCache::key_of("text", "chip");
  set_log_level(LogLevel::error);
  cache.store(key, "kernel", "chip", blob_of(10));
  set_log_level(LogLevel::warning);
  EXPECT_FALSE(cache.find(key, "chip").has_value());
  EXPECT(only_file(scratch.folder()).empty());
  const auto refused = cache.list();
  REQUIRE_FALSE(refused.has_value());
  EXPECT(refused.error().message.contains("can be written by others"));
}

TEST_CASE("a folder that cannot be made stops nothing") {
  CompileCache cache("/proc/no/such/folder");
  set_log_level(LogLevel::error);
  cache.store(CompileCache::key_of("a", "b"), "kernel", "b", blob_of(10));
  set_log_level(LogLevel::warning);
  EXPECT_FALSE(cache.find(CompileCache::key_of("a", "b"), "b").has_value());
}

TEST_CASE("pruning drops what was used longest ago") {
  const test::ScratchCache scratch;
  CompileCache cache;
  for (const char* text : {"old", "middle", "new"}) {
    const std::string key = CompileCache::key_of(text, "chip");
    cache.store(key, text, "chip", blob_of(1000));
    const auto age = std::string_view(text) == "old" ? 300 : std::string_view(text) == "middle" ? 200 : 100;
    fs::last_write_time(scratch.folder() / (key + ".kernel"),
                        fs::file_time_type::clock::now() - std::chrono::seconds(age));
  }
  EXPECT(cache.find(CompileCache::key_of("old", "chip"), "chip").has_value());  // used now
  EXPECT(cache.prune(2500).value() == 1);
  EXPECT_FALSE(cache.find(CompileCache::key_of("middle", "chip"), "chip").has_value());
  EXPECT(cache.find(CompileCache::key_of("old", "chip"), "chip").has_value());
}

TEST_CASE("an entry that others may write, or a link, is not used") {
  const test::ScratchCache scratch;
  CompileCache cache;
  const std::string key = CompileCache::key_of("text", "chip"),
                    linked = CompileCache::key_of("linked", "chip");
  cache.store(key, "kernel", "chip", blob_of(100));
  const fs::path path = scratch.folder() / (key + ".kernel");
  fs::create_symlink(path, scratch.folder() / (linked + ".kernel"));
  set_log_level(LogLevel::error);
  EXPECT_FALSE(cache.find(linked, "chip").has_value());
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  EXPECT_FALSE(cache.find(key, "chip").has_value());
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  EXPECT(cache.find(key, "chip").has_value());
  set_log_level(LogLevel::warning);
}

TEST_CASE("what killed writers left is swept after an hour") {
  const test::ScratchCache scratch;
  CompileCache cache;
  cache.store(CompileCache::key_of("text", "chip"), "kernel", "chip", blob_of(100));
  for (const char* name : {"old.kernel.00000000.part", "new.kernel.00000000.part"}) {
    REQUIRE(write_file_atomically(scratch.folder() / name, std::string_view("x")).has_value());
  }
  fs::last_write_time(scratch.folder() / "old.kernel.00000000.part",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  cache.files().keep_within_limit();
  EXPECT_FALSE(fs::exists(scratch.folder() / "old.kernel.00000000.part"));
  EXPECT(fs::exists(scratch.folder() / "new.kernel.00000000.part"));
}

TEST_CASE("an entry under another entry's name is not used") {
  const test::ScratchCache scratch;
  CompileCache cache;
  const std::string right = CompileCache::key_of("right", "chip"),
                    wrong = CompileCache::key_of("wrong", "chip");
  cache.store(right, "kernel", "chip", blob_of(100));
  fs::copy_file(scratch.folder() / (right + ".kernel"), scratch.folder() / (wrong + ".kernel"));
  set_log_level(LogLevel::error);
  EXPECT_FALSE(cache.find(wrong, "chip").has_value());
  set_log_level(LogLevel::warning);
  EXPECT(cache.find(right, "chip").has_value());
}

TEST_CASE("a compilation keeps the folder within its limit") {
  const test::ScratchCache scratch;
  CompileCache cache(scratch.folder(), 3500);
  for (const char* text : {"a", "b", "c", "d", "e"}) {
    cache.store(CompileCache::key_of(text, "chip"), text, "chip", blob_of(1000));
  }
  EXPECT(cache.list()->size() == 5);
  cache.files().keep_within_limit();
  EXPECT(cache.list()->size() == 3);
}

TEST_CASE("a damaged entry of a real model is compiled again and mended") {
  const test::ScratchCache scratch;
  DeviceList devices(built_in_plugins(), 1);
  auto first = Session::of(devices, test::small_graph(), {});
  REQUIRE(first.has_value());
  const fs::path path = only_file(scratch.folder());
  auto bytes = read_file(path).value();
  bytes[bytes.size() / 2] ^= std::byte{1};
  REQUIRE(write_file_atomically(path, bytes).has_value());
  set_log_level(LogLevel::error);
  auto second = Session::of(devices, test::small_graph(), {});
  set_log_level(LogLevel::warning);
  REQUIRE(second.has_value());
  EXPECT((*second)->executable().compiled_kernels == 1);
  EXPECT(Session::of(devices, test::small_graph(), {}).value()->executable().compiled_kernels == 0);
}

}  // namespace
}  // namespace diji
