// Attributes: a map sorted by name, equal by bits.
#include "graph/attributes.h"

#include "tests/unit/expect.h"

#include <bit>
#include <cmath>

namespace diji {
namespace {

TEST_CASE("set, find, erase, in the order of names") {
  Attributes a = {{"b", std::int64_t{1}}, {"a", 2.0}, {"b", std::int64_t{3}}};
  REQUIRE(a.items().size() == 2);
  EXPECT(a.items()[0].first == "a");
  EXPECT(*a.get<std::int64_t>("b") == 3);
  EXPECT(a.get<double>("b") == nullptr);
  EXPECT(a.get_or<double>("c", 7) == 7);
  a.erase("a");
  a.erase("not there");
  EXPECT_FALSE(a.has("a"));
  EXPECT(a.has("b"));
}

TEST_CASE("equality is of bits and of kinds") {
  const auto quiet = std::bit_cast<double>(0x7ff8000000000001ULL),
             other = std::bit_cast<double>(0x7ff8000000000002ULL);
  EXPECT(same(quiet, quiet));
  EXPECT_FALSE(same(quiet, other));
  EXPECT_FALSE(same(0.0, -0.0));
  EXPECT_FALSE(same(std::int64_t{1}, 1.0));
  EXPECT(same(Floats{quiet, 1}, Floats{quiet, 1}));
  EXPECT_FALSE(same(Floats{1}, Floats{1, 2}));
  EXPECT(same(Shape{Dim::symbol("N") + 1}, Shape{1 + Dim::symbol("N")}));
  EXPECT_FALSE(same(Shape{Dim::symbol("N")}, Shape{Dim::symbol("N", {1, 2})}));
  EXPECT(same(HostTensor::of<float>({1}, {1}), HostTensor::of<float>({1}, {1})));
  EXPECT_FALSE(same(HostTensor::of<float>({1}, {1}), HostTensor::of<float>({}, {1})));
  EXPECT((Attributes{{"a", 1.0}, {"b", 2.0}} == Attributes{{"b", 2.0}, {"a", 1.0}}));
  EXPECT_FALSE((Attributes{{"a", 1.0}} == Attributes{{"a", 1.0}, {"b", 2.0}}));
}

}  // namespace
}  // namespace diji
