// Merging of loop axes with symbolic strides.
#include "codegen/loops.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

const Dim N = Dim::symbol("N"), M = Dim::symbol("M");

std::string collapsed(Shape sizes, std::vector<int> groups, std::vector<Access> accesses) {
  LoopAxes axes{.sizes = std::move(sizes), .groups = std::move(groups), .accesses = {}};
  for (Access& access : accesses) axes.accesses.push_back(&access);
  axes.collapse();
  std::string text = text_of(axes.sizes);
  for (const Access& access : accesses) text += " " + text_of(access.strides);
  return text;
}

TEST_CASE("axes that every access walks as one become one") {
  EXPECT(collapsed({N, M, 3}, {0, 0, 0}, {{0, {M * Dim(3), 3, 1}}}) == "[3*M*N] [1]");
  EXPECT(collapsed({N, M, 3}, {0, 0, 0}, {{0, {M * Dim(3), 3, 1}}, {5, {M * Dim(3), 3, 1}}}) ==
         "[3*M*N] [1] [1]");
  // A bias along the last axis keeps it apart; one along the first keeps the first.
  EXPECT(collapsed({N, M, 3}, {0, 0, 0}, {{0, {M * Dim(3), 3, 1}}, {0, {0, 0, 1}}}) ==
         "[M*N, 3] [3, 1] [0, 1]");
  EXPECT(collapsed({N, M, 3}, {0, 0, 0}, {{0, {M * Dim(3), 3, 1}}, {0, {1, 0, 0}}}) ==
         "[N, 3*M] [3*M, 1] [1, 0]");
}

TEST_CASE("axes of size 1 go, whatever their strides") {
  EXPECT(collapsed({1, N, 1}, {0, 0, 0}, {{0, {77, 1, 5}}}) == "[N] [1]");
  EXPECT(collapsed({1, 1}, {0, 1}, {{0, {3, 4}}}) == "[] []");
}

TEST_CASE("groups and transpositions stay apart") {
  EXPECT(collapsed({N, M}, {0, 1}, {{0, {M, 1}}}) == "[N, M] [M, 1]");
  EXPECT(collapsed({N, M}, {0, 0}, {{0, {1, N}}}) == "[N, M] [1, N]");
  // A reversed axis: the whole can be walked backwards as one.
  EXPECT(collapsed({4, 3}, {0, 0}, {{11, {-3, -1}}}) == "[12] [-1]");
  EXPECT(collapsed({4, 3}, {0, 0}, {{2, {3, -1}}}) == "[4, 3] [3, -1]");
}

TEST_CASE("lanes and rounding up") {
  EXPECT(lanes_for({.dialect = "llvm-ir", .vector_bytes = 64, .vector_registers = 32}, DType::f32) == 16);
  EXPECT(lanes_for({.dialect = "llvm-ir", .vector_bytes = 32, .vector_registers = 16}, DType::f16) == 8);
  EXPECT(lanes_for({.dialect = "llvm-ir", .vector_bytes = 4, .vector_registers = 16}, DType::f64) == 1);
  EXPECT(ceil_div(N, 4).text() == "(N + 3) floordiv 4");
  EXPECT(ceil_div(8, 4).is(2));
}

}  // namespace
}  // namespace diji
