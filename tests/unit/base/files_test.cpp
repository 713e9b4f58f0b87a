// Files that are there, missing, empty, no files at all, or on a full or forbidden disk.
#include "base/files.h"

#include "base/checksum.h"

#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/expect.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace diji {
namespace {

using test::content_of;
using test::ScratchFolder;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_CASE("a file is mapped and read whole") {
  const ScratchFolder folder;
  const std::string text(100'000, 'x');
  const auto path = folder.write("a.bin", text + "end");
  const auto mapped = MappedFile::open(path);
  REQUIRE(mapped);
  EXPECT(text_of((*mapped)->bytes()) == text + "end");
  EXPECT((*mapped)->path() == path.string());
  const auto bytes = read_file(path);
  REQUIRE(bytes);
  EXPECT(text_of(*bytes) == text + "end");
}

TEST_CASE("a mapping outlives its file's name") {
  const ScratchFolder folder;
  const auto path = folder.write("a.bin", "kept");
  const auto mapped = MappedFile::open(path);
  REQUIRE(mapped);
  std::filesystem::remove(path);
  EXPECT(text_of((*mapped)->bytes()) == "kept");
}

TEST_CASE("an empty file has no bytes") {
  const ScratchFolder folder;
  const auto path = folder.write("empty", "");
  const auto mapped = MappedFile::open(path);
  REQUIRE(mapped);
  EXPECT((*mapped)->bytes().empty());
  EXPECT(read_file(path).value().empty());
}

TEST_CASE("a file of unknown size is read to its end") {
  const auto bytes = read_file("/proc/self/status");  // the system says 0 bytes
  REQUIRE(bytes);
  EXPECT(text_of(*bytes).find("VmSize") != std::string::npos);
}

void expect_refused(const std::filesystem::path& path, ErrorCode code, std::string_view reason) {
  const auto mapped = MappedFile::open(path);
  const auto read = read_file(path);
  REQUIRE_FALSE(mapped);
  REQUIRE_FALSE(read);
  for (const Error& error : {mapped.error(), read.error()}) {
    CAPTURE(error.message);
    EXPECT(error.code == code);
    EXPECT(error.file == path.string());
    EXPECT(error.message == fmt::format("cannot open '{}': {}", path.string(), reason));
  }
}

TEST_CASE("what is no readable file is refused with the reason") {
  const ScratchFolder folder;
  expect_refused(folder.path() / "missing", ErrorCode::not_found, "No such file or directory");
  expect_refused(folder.write("file", "") / "below", ErrorCode::not_found, "Not a directory");
  expect_refused(folder.path(), ErrorCode::io, "it is a directory");
  expect_refused("/dev/null", ErrorCode::io, "it is not a regular file");
  REQUIRE(::mkfifo((folder.path() / "fifo").c_str(), 0600) == 0);
  expect_refused(folder.path() / "fifo", ErrorCode::io, "it is not a regular file");  // and at once
  expect_refused("", ErrorCode::not_found, "No such file or directory");
}

TEST_CASE("writing makes or replaces the whole file and leaves nothing else") {
  const ScratchFolder folder;
  const auto path = folder.path() / "out.txt";
  REQUIRE(write_file_atomically(path, "first"));
  EXPECT(content_of(path) == "first");
  const auto before = MappedFile::open(path).value();
  REQUIRE(write_file_atomically(path, std::string(50'000, 'y')));
  EXPECT(content_of(path) == std::string(50'000, 'y'));
  EXPECT(text_of(before->bytes()) == "first");  // who had the old file keeps it
  REQUIRE(write_file_atomically(path, ""));
  EXPECT(content_of(path).empty());
  EXPECT(folder.entries() == 1);
}

TEST_CASE("a relative path without a folder is written in the working folder") {
  const ScratchFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto written = write_file_atomically("plain.txt", "here");
  std::filesystem::current_path(before);
  REQUIRE(written);
  EXPECT(content_of(folder.path() / "plain.txt") == "here");
}

TEST_CASE("writers of the same path do not mix") {
  const ScratchFolder folder;
  const auto path = folder.path() / "shared";
  std::atomic<int> failures = 0;
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    writers.emplace_back([&, letter] {
      for (int i = 0; i < 20; ++i) {
        if (!write_file_atomically(path, std::string(5000, letter))) ++failures;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT(failures == 0);
  const std::string content = content_of(path);
  REQUIRE(content.size() == 5000);
  EXPECT(content == std::string(5000, content[0]));
  EXPECT(folder.entries() == 1);
}

void expect_unwritable(const std::filesystem::path& path, std::string_view reason) {
  const auto written = write_file_atomically(path, "text");
  REQUIRE_FALSE(written);
  EXPECT(written.error().code == ErrorCode::io);
  EXPECT(written.error().file == path.string());
  EXPECT(written.error().message == fmt::format("cannot write '{}': {}", path.string(), reason));
}

TEST_CASE("what cannot be written is refused with the reason") {
  const ScratchFolder folder;
  expect_unwritable(folder.path() / "missing" / "out", "No such file or directory");
  expect_unwritable(folder.write("file", "") / "out", "Not a directory");
  expect_unwritable(folder.path(), "it is a directory");
  expect_unwritable("/dev/null", "it is not a regular file");
  EXPECT(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("a folder without permission is an error and the old file stays") {
  const ScratchFolder folder;
  const auto path = folder.write("closed/out", "old");
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0755});
  std::filesystem::permissions(path.parent_path(), std::filesystem::perms{0555});
  constexpr uid_t kNobody = 65534;
  const bool root = ::geteuid() == 0;
  if (root && ::seteuid(kNobody) != 0) {
    MESSAGE("skipped: root may write everywhere and cannot become nobody here");
    return;
  }
  const auto written = write_file_atomically(path, "new");
  if (root) REQUIRE(::seteuid(0) == 0);
  std::filesystem::permissions(path.parent_path(), std::filesystem::perms{0755});
  REQUIRE_FALSE(written);
  EXPECT(written.error().message == fmt::format("cannot write '{}': Permission denied", path.string()));
  EXPECT(content_of(path) == "old");
}

// Of this process now.
std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_CASE("a mapped file that was read gives its memory back, and has its bytes still") {
  constexpr std::size_t kBytes = 40'000'001;
  const ScratchFolder folder;
  std::string text(kBytes, 'a');
  for (std::size_t i = 0; i < kBytes; i += 1000) text[i] = static_cast<char>('a' + i / 1000 % 26);
  const std::string wanted = digest_of(text);
  const auto path = folder.write("large", text);
  const auto file = MappedFile::open(path);
  REQUIRE(file);
  const auto bytes = (*file)->bytes();
  const std::size_t before = resident_bytes();
  EXPECT(digest_of(std::span(&bytes, 1)) == wanted);
  EXPECT(resident_bytes() > before + kBytes / 2);
  EXPECT(digest_of(std::span(&bytes, 1), Behind::forget_pages) == wanted);
  EXPECT(resident_bytes() < before + kBytes / 4);
  EXPECT(digest_of(std::span(&bytes, 1)) == wanted);
  forget_pages(bytes.subspan(1, kBytes - 2));  // its first and its last page stay
  forget_pages(bytes.first(0));
  EXPECT(resident_bytes() < before + kBytes / 4);
  EXPECT(std::ranges::equal(bytes, std::as_bytes(std::span(text))));
}

TEST_CASE("a full disk is an error before anything is lost") {
  const ScratchFolder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
    MESSAGE("skipped: mounting a small tmpfs needs root with CAP_SYS_ADMIN");
    return;
  }
  {
    const auto path = folder.path() / "out";
    EXPECT(write_file_atomically(path, "old"));
    const auto written = write_file_atomically(path, std::string(1 << 20, 'x'));
    EXPECT_FALSE(written);
    if (!written) EXPECT(written.error().message.ends_with("No space left on device"));
    EXPECT(content_of(path) == "old");
    EXPECT(folder.entries() == 1);  // the temporary file is gone, its space is free again
    EXPECT(write_file_atomically(path, std::string(20'000, 'y')));
  }
  EXPECT(::umount(folder.path().c_str()) == 0);
}

}  // namespace
}  // namespace diji
