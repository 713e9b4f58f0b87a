// The builder folds index arithmetic as it writes.
#include "codegen/nest_builder.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

struct Nest {
  LoopNest nest;
  NestBuilder b{nest};
};

TEST_CASE("arithmetic with 0 and 1 emits nothing") {
  Nest n;
  const Reg x = n.b.grid_index(), zero = n.b.integer(0), one = n.b.integer(1);
  const std::size_t before = n.nest.body.size();
  EXPECT(n.b.add(x, zero) == x);
  EXPECT(n.b.add(zero, x) == x);
  EXPECT(n.b.subtract(x, zero) == x);
  EXPECT(n.b.multiply(x, one) == x);
  EXPECT(n.b.multiply(one, x) == x);
  EXPECT(n.b.known(n.b.multiply(x, zero)) == 0);
  EXPECT(n.b.divide(x, one) == x);
  EXPECT(n.nest.body.size() == before);
  EXPECT(n.b.known(n.b.remainder(x, one)) == 0);
  EXPECT(n.b.known(n.b.add(n.b.integer(3), n.b.integer(4))) == 7);
  EXPECT_FALSE(n.b.known(x).has_value());
}

TEST_CASE("each expression of sizes is one size argument, numbers are none") {
  Nest n;
  const Dim size = Dim::symbol("N");
  n.b.dim(size + 1);
  n.b.dim(size);
  n.b.dim(1 + size);
  EXPECT(n.b.known(n.b.dim(5)) == 5);
  REQUIRE(n.nest.sizes.size() == 2);
  EXPECT(n.nest.sizes[0] == size + 1);
}

TEST_CASE("types are checked, and kept by what changes nothing") {
  Nest n;
  const Reg x = n.b.real(1, {DType::f32, 4});
  EXPECT(n.b.convert(x, DType::f32) == x);
  const Reg scalar = n.b.grid_index();
  EXPECT(n.b.splat(scalar, 1) == scalar);
  EXPECT((n.b.type(n.b.less(x, x)) == LaneType{DType::boolean, 4}));
  EXPECT((n.b.type(n.b.fold(NestOp::fold_add, x)) == LaneType{DType::f32, 1}));
  EXPECT(test::aborts([&] { n.b.add(x, n.b.real(1, {DType::f64, 4})); }));
  EXPECT(test::aborts([&] { n.b.select(n.b.less(x, x), x, n.b.grid_index()); }));
}

TEST_CASE("a loop carries values and yields as many") {
  Nest n;
  const Reg sum = n.b.real(0, {DType::f32, 1});
  const auto results = n.b.loop(
      n.b.integer(0), n.b.integer(4), n.b.integer(1), {sum},
      [&](Reg, std::span<const Reg> carried) { return std::vector<Reg>{n.b.add(carried[0], carried[0])}; });
  REQUIRE(results.size() == 1);
  EXPECT((n.b.type(results[0]) == LaneType{DType::f32, 1}));
  EXPECT(test::aborts([&] {
    n.b.loop(n.b.integer(0), n.b.integer(4), n.b.integer(1), {sum},
             [](Reg, std::span<const Reg>) { return std::vector<Reg>{}; });
  }));
}

}  // namespace
}  // namespace diji
