// The nearest name: near enough, nearest, and nothing.
#include "base/nearest.h"

#include "tests/unit/expect.h"

#include <string>
#include <vector>

namespace diji {
namespace {

TEST_CASE("a typing mistake finds its word, a foreign word finds nothing") {
  const std::vector<std::string> names = {"softmax", "sigmoid", "softplus", "add"};
  EXPECT(nearest_name("sofmax", names) == "softmax");
  EXPECT(nearest_name("softmaxx", names) == "softmax");
  EXPECT(nearest_name("sigmiod", names) == "sigmoid");
  EXPECT(nearest_name("ad", names) == "add");
  EXPECT(nearest_name("convolution", names).empty());
  EXPECT(nearest_name("", names).empty());
  EXPECT(nearest_name("add", {}).empty());
  EXPECT(nearest_name("softplus", names) == "softplus");
}

TEST_CASE("of equally near names the first is taken") {
  const std::vector<std::string> names = {"abcx", "abcy"};
  EXPECT(nearest_name("abcz", names) == "abcx");
}

}  // namespace
}  // namespace diji
