// What runtime tests share: devices with a number of threads, a cache folder of their own, small graphs.
#pragma once

#include "graph/text.h"
#include "ops/catalog.h"
#include "runtime/session.h"
#include "tests/unit/expect.h"

#include <cstdlib>
#include <filesystem>
#include <string>

namespace diji::test {

/// A cache folder that goes with the object; the environment names it while the object lives.
class ScratchCache {
 public:
  ScratchCache() {
    std::string pattern = (std::filesystem::temp_directory_path() / "diji-cache-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    ::setenv("DIJI_CACHE_DIR", folder_.c_str(), 1);
  }
  ~ScratchCache() {
    ::unsetenv("DIJI_CACHE_DIR");
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ScratchCache(const ScratchCache&) = delete;
  ScratchCache& operator=(const ScratchCache&) = delete;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

inline Graph graph_from(std::string_view text) {
  auto graph = parse(text, find_op);
  REQUIRE_MESSAGE(graph.has_value(), (graph ? std::string() : graph.error().message));
  return std::move(*graph);
}

/// y = tanh(x) summed over the rows, plus w: one symbolic size, a reduction, a broadcast.
inline Graph small_graph() {
  return graph_from(R"(graph "small" {
    symbol N in [0, 1099511627776]
    input %x "x" : f32[N, 40]
    input %w "w" : f32[40]
    %t = tanh(%x)
    %axes = constant i64[1] {1}
    %s = reduce_sum(%t, %axes) {keepdims = 1}
    %y = add(%s, %w)
    output "y" = %y
  })");
}

}  // namespace diji::test
