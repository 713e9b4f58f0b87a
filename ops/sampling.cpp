// Interpolation by weighted cells.
#include "ops/sampling.h"

#include "ops/formula.h"

namespace diji {
namespace {

// ((c3 · x + c2) · x + c1) · x + c0
ValueId cubic(Builder& b, ValueId x, std::array<double, 4> c) {
  const DType dtype = b.dtype(x);
  ValueId sum = b.scalar(dtype, c[3]);
  for (const std::size_t i : {2U, 1U, 0U}) {
    sum = b.multiply(sum, x);
    if (c[i] != 0) sum = b.add(sum, b.scalar(dtype, c[i]));
  }
  return sum;
}

// Keys' kernel for distances 0 … 1 and 1 … 2.
ValueId near_kernel(Builder& b, ValueId x, double a) { return cubic(b, x, {1, 0, -(a + 3), a + 2}); }
ValueId far_kernel(Builder& b, ValueId x, double a) { return cubic(b, x, {-4 * a, 8 * a, -5 * a, a}); }

}  // namespace

Split split(Builder& b, ValueId x, DType weights) {
  const ValueId whole = b.map(Primitive::floor, {x});
  return {b.convert(whole, DType::i64), b.convert(b.subtract(x, whole), weights)};
}

Taps linear_taps(Builder& b, const Split& at) {
  const ValueId one = b.scalar(b.dtype(at.rest), 1);
  return {{at.cell, b.subtract(one, at.rest)}, {b.add(at.cell, size_scalar(b, 1)), at.rest}};
}

ValueId cubic_kernel(Builder& b, ValueId distance, double a) {
  const DType dtype = b.dtype(distance);
  const ValueId beyond =
      b.select(b.less(distance, b.scalar(dtype, 2)), far_kernel(b, distance, a), b.scalar(dtype, 0));
  return b.select(b.less(distance, b.scalar(dtype, 1)), near_kernel(b, distance, a), beyond);
}

Taps cubic_taps(Builder& b, const Split& at, double a) {
  const ValueId one = b.scalar(b.dtype(at.rest), 1);
  const ValueId back = b.subtract(one, at.rest);
  return {{b.add(at.cell, size_scalar(b, -1)), far_kernel(b, b.add(at.rest, one), a)},
          {at.cell, near_kernel(b, at.rest, a)},
          {b.add(at.cell, size_scalar(b, 1)), near_kernel(b, back, a)},
          {b.add(at.cell, size_scalar(b, 2)), far_kernel(b, b.add(back, one), a)}};
}

Values tap_terms(Builder& b, ValueId x, const Values& lead, const std::vector<Taps>& axes,
                 bool zero_outside) {
  std::size_t count = 1;
  for (const Taps& taps : axes) count *= taps.size();
  Values terms;
  for (std::size_t n = 0; n < count; ++n) {
    Values indices = lead;
    ValueId weight = ValueId::none;
    std::size_t block = count;
    for (const Taps& taps : axes) {
      block /= taps.size();
      const Tap& tap = taps[n / block % taps.size()];
      indices.push_back(tap.cell);
      weight = weight == ValueId::none ? tap.weight : b.multiply(weight, tap.weight);
    }
    terms.push_back(b.multiply(b.gather(x, std::move(indices), zero_outside), weight));
  }
  return terms;
}

ValueId sum_taps(Builder& b, ValueId x, const Values& lead, const std::vector<Taps>& axes,
                 bool zero_outside) {
  const Values terms = tap_terms(b, x, lead, axes, zero_outside);
  ValueId sum = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) sum = b.add(sum, terms[i]);
  return sum;
}

}  // namespace diji
