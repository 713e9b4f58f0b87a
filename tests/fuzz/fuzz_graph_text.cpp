// libFuzzer target: any text as a graph gives an error or a graph that prints and parses to itself.
#include "base/check.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/catalog.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto graph = diji::parse({reinterpret_cast<const char*>(data), size}, diji::find_op);
  if (!graph) return 0;
  CHECK(diji::verify(*graph).has_value(), "a parsed graph keeps the rules");
  const std::string text = diji::print(*graph);
  const auto again = diji::parse(text, diji::find_op);
  CHECK(again && diji::print(*again) == text, "a graph prints and parses to itself");
  return 0;
}
