// The log: what reaches stderr at which level.
#include "base/log.h"

#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/expect.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace diji {
namespace {

template <typename Body>
std::string stderr_of(const Body& body) {
  const test::ScratchFolder folder;
  const auto path = folder.write("stderr", "");
  std::fflush(stderr);
  const int kept = ::dup(STDERR_FILENO);
  const int file = ::open(path.c_str(), O_WRONLY);
  ::dup2(file, STDERR_FILENO);
  body();
  std::fflush(stderr);
  ::dup2(kept, STDERR_FILENO);
  ::close(file);
  ::close(kept);
  return test::content_of(path);
}

TEST_CASE("messages above the level are dropped, others are one line each") {
  EXPECT(stderr_of([] {
           warn("{} of {}", 1, 2);
           log_message(LogLevel::info, "dropped");
           log_message(LogLevel::error, "kept");
         }) == "diji: warning: 1 of 2\ndiji: error: kept\n");
  set_log_level(LogLevel::debug);
  EXPECT(stderr_of([] { log_message(LogLevel::debug, "now"); }) == "diji: debug: now\n");
  set_log_level(LogLevel::error);
  EXPECT(stderr_of([] { warn("not now"); }).empty());
  set_log_level(LogLevel::warning);
}

}  // namespace
}  // namespace diji
