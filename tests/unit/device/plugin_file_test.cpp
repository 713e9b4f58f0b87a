// Plugin files: which may be loaded, and the sentence for each that may not.
#include "base/files.h"
#include "device/device.h"
#include "device/plugin.h"
#include "plugins/mock/mock_plugin.h"
#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/device/environment.h"
#include "tests/unit/expect.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace diji {
namespace {

namespace fs = std::filesystem;

/// The build's shared mock plugin, copied where its mode and owner can be changed.
fs::path copy_of_mock(const test::ScratchFolder& folder, const std::string& name = "libdiji_device_mock.so") {
  const fs::path built =
      fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/libdiji_device_mock.so";
  REQUIRE(fs::exists(built));
  fs::copy_file(built, folder.path() / name);
  REQUIRE(::chmod((folder.path() / name).c_str(), 0755) == 0);
  return folder.path() / name;
}

std::string refusal(const fs::path& path) {
  const auto plugin = Plugin::load(path.string());
  if (plugin) return "";
  EXPECT(plugin.error().code == ErrorCode::no_device);
  EXPECT(plugin.error().message.contains(path.string()));
  return plugin.error().message;
}

TEST_CASE("a plugin file is loaded") {
  const test::ScratchFolder folder;
  const fs::path path = copy_of_mock(folder);
  const auto plugin = Plugin::load(path.string());
  REQUIRE(plugin);
  EXPECT(plugin->name() == "mock");
  EXPECT(plugin->tier() == 0);
  EXPECT(plugin->origin() == path.string());
  EXPECT(plugin->device_count() == 2);
}

TEST_CASE("files that are no plugin are refused") {
  const test::ScratchFolder folder;
  EXPECT(refusal(folder.path() / "absent.so").contains("No such file"));
  EXPECT(refusal(folder.path()).contains("not a regular file"));
  EXPECT(refusal(folder.write("text.so", "not a library")).contains("too short to be a shared object"));
  EXPECT(refusal(folder.write("empty.so", "")).contains("too short"));
  EXPECT(refusal(folder.write("long.so", std::string(4096, 'x'))).contains("not a 64-bit ELF"));

  // Some library that is no plugin: the one with cos().
  Dl_info library{};
  REQUIRE(::dladdr(::dlsym(RTLD_DEFAULT, "cos"), &library) != 0);
  fs::copy_file(library.dli_fname, folder.path() / "other.so");
  EXPECT(refusal(folder.path() / "other.so").contains("it exports no diji_device_plugin()"));
}

// Up to where the file is mapped; behind it lie sections that nobody needs, long ones in a build with
// sanitizers.
std::uintmax_t end_of_segments(const fs::path& path) {
  const std::vector<std::byte> bytes = read_file(path).value();
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::uintmax_t end = 0;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const std::size_t at = header.e_phoff + static_cast<std::size_t>(i) * sizeof segment;
    std::memcpy(&segment, bytes.data() + at, sizeof segment);
    if (segment.p_type == PT_LOAD) end = std::max<std::uintmax_t>(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

TEST_CASE("a plugin that is cut off anywhere is refused, not mapped") {
  const test::ScratchFolder folder;
  const fs::path path = copy_of_mock(folder);
  const auto end = end_of_segments(path);
  for (std::uintmax_t size = 64; size < end; size += 997) {
    fs::resize_file(path, size);
    EXPECT(refusal(path).contains("cut off"));
    fs::remove(path);
    (void)copy_of_mock(folder);
  }
}

TEST_CASE("a plugin that others may write is refused") {
  const test::ScratchFolder folder;
  const fs::path path = copy_of_mock(folder);
  for (const mode_t mode : {0775u, 0757u}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    EXPECT(refusal(path).contains("the file may be written by others"));
  }
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  EXPECT(refusal(path).contains("its folder may be written by others"));
  REQUIRE(::chmod(folder.path().c_str(), 01777) == 0);  // as /tmp: others cannot replace our file there
  EXPECT(refusal(path).empty());
  if (::geteuid() != 0) return;
  REQUIRE(::chown(path.c_str(), 4711, 4711) == 0);
  EXPECT(refusal(path).contains("the file belongs to user 4711"));
}

TEST_CASE("DIJI_PLUGIN_PATH is searched in order, and what is refused there is a problem, not an end") {
  const test::ScratchFolder folder;
  copy_of_mock(folder);
  folder.write("libdiji_device_broken.so", "not a library");
  folder.write("notes.txt", "no plugin by its name");
  const test::ScopedEnvironment path("DIJI_PLUGIN_PATH", ":/nonexistent/folder:" + folder.path().string());
  DeviceList list({}, 1);
  REQUIRE(list.problems().size() == 2);
  EXPECT(list.problems()[0].message.contains("folder '/nonexistent/folder'"));
  EXPECT(list.problems()[1].message.contains("libdiji_device_broken.so"));
  REQUIRE(list.entries().size() == 2);
  EXPECT(list.entries()[1].name == "mock:1");
  EXPECT(list.open("mock:1"));
}

TEST_CASE("a plugin named by hand: a second one of the same name is an error") {
  const test::ScratchFolder folder;
  const fs::path path = copy_of_mock(folder);
  DeviceList alone({}, 1);
  EXPECT(alone.add_plugin(path.string()));
  EXPECT(alone.open("mock"));
  const diji_device_plugin_table* const built_in[] = {diji_plugin_mock()};
  DeviceList list(built_in, 1);
  const auto added = list.add_plugin(path.string());
  REQUIRE_FALSE(added);
  EXPECT(added.error().message.contains("there is a plugin named mock already (built in)"));
  EXPECT_FALSE(list.add_plugin((folder.path() / "absent.so").string()));
  EXPECT(list.entries().size() == 2);
}

}  // namespace
}  // namespace diji
