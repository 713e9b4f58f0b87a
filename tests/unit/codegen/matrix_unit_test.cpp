// Layouts of the fragments of matrix units.
#include "codegen/matrix_unit.h"

#include "tests/unit/expect.h"

#include <set>

namespace diji {
namespace {

TEST_CASE("the pieces of a matrix unit's lanes are each element of its tiles once") {
  for (const char* dialect : {"cuda-mma", "hip-mfma"}) {
    const MatrixUnit* unit = matrix_unit(dialect, DType::bf16);
    REQUIRE(unit != nullptr);
    const auto at = [&](const MatrixUnit::Place& place, int lane, int piece) {
      return lane / unit->split * place.from_high + lane % unit->split * place.from_low +
             place.at[static_cast<std::size_t>(piece)];
    };
    std::set<std::pair<int, int>> lhs, rhs, sums;
    for (int lane = 0; lane < unit->lanes; ++lane) {
      for (int i = 0; i < unit->lhs_pairs; ++i)
        lhs.emplace(at(unit->lhs_row, lane, i), at(unit->lhs_depth, lane, i));
      for (int i = 0; i < unit->rhs_pairs; ++i)
        rhs.emplace(at(unit->rhs_depth, lane, i), at(unit->rhs_column, lane, i));
      for (int i = 0; i < unit->sums; ++i)
        sums.emplace(at(unit->sum_row, lane, i), at(unit->sum_column, lane, i));
    }
    EXPECT(static_cast<int>(lhs.size()) == unit->rows * unit->depth / 2);
    EXPECT(static_cast<int>(rhs.size()) == unit->depth / 2 * unit->columns);
    EXPECT(static_cast<int>(sums.size()) == unit->rows * unit->columns);
    for (const auto& [row, k] : lhs) EXPECT((row < unit->rows && k % 2 == 0 && k < unit->depth));
    for (const auto& [row, column] : sums) EXPECT((row < unit->rows && column < unit->columns));
  }
  EXPECT(matrix_unit("cuda-mma", DType::f32) == nullptr);
  EXPECT(matrix_unit("cuda", DType::f16) == nullptr);
}

}  // namespace
}  // namespace diji
