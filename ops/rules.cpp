// Sizes that must agree, positions from either end.
#include "ops/rules.h"

namespace diji {

void require_equal(Builder& b, const Dim& left, const Dim& right, std::string_view why) {
  if (!b.ok() || left == right) return;
  const Bounds gap = (left - right).bounds();
  if (gap.min > 0 || gap.max < 0) {
    b.fail(ErrorCode::mismatch, "{} differ: {} and {}", why, left.text(), right.text());
  } else {
    b.graph().require({Constraint::Kind::equal, left, right, std::string(why)});
  }
}

ValueId from_the_end(Builder& b, ValueId positions, const Dim& size) {
  const ValueId wide = b.convert(positions, DType::i64);
  return b.select(b.less(wide, b.scalar(DType::i64, 0)), b.add(wide, size_scalar(b, size)), wide);
}

}  // namespace diji
