// exp and what is made of it: expm1, the hyperbolic functions, erf.
#include "codegen/math.h"

#include <array>

namespace diji {
namespace {

// (exp(r) - 1 - r) / r² on |r| ≤ ln2/2, off by 2^-34 (single) and 2^-58 of itself, the whole being at most a
// sixth of exp(r) - 1.
constexpr std::array kExpSingle = {0x1.a1132cda88703p-16, 0x1.a15189cfe8b1ep-13, 0x1.6c16858557e7ep-10,
                                   0x1.1110c62af68cep-7,  0x1.5555555c882fap-5,  0x1.5555556755eedp-3,
                                   0x1.0000000000000p-1};
constexpr std::array kExp = {0x1.1f730a202ec17p-29, 0x1.af4df5750ec30p-26, 0x1.27e4db6121beep-22,
                             0x1.71de022bd5558p-19, 0x1.a01a01a6d9931p-16, 0x1.a01a01abe9ce8p-13,
                             0x1.6c16c16c162d2p-10, 0x1.11111111100d8p-7,  0x1.5555555555556p-5,
                             0x1.5555555555557p-3,  0x1.0000000000000p-1};

// x = n·ln2 + r with |r| ≤ ln2/2, and exp(r) - 1.
struct Reduced {
  Nearest nearest;
  Real tail;
};

Reduced reduce_by_ln2(Real x, Precision precision, const Real* low = nullptr) {
  // ln2 = high + low with zeros at the end of `high`, so that n · high is exact with or without a fused
  // multiply-add.
  constexpr double kHigh = 6.93147180369123816490e-01, kLow = 1.90821492927058770002e-10;
  const Nearest n = nearest(x, 1.44269504088896340736);
  Real r = multiply_add(n.n, -kLow, multiply_add(n.n, -kHigh, x));
  if (low != nullptr) r = r + *low;
  const Real tail = precision == Precision::single ? polynomial(r, kExpSingle) : polynomial(r, kExp);
  return {n, multiply_add(r * r, tail, r)};
}

// x · 2^n, where 2^n may leave the normal range although the product does not: two factors of half the power
// never do.
Real scale(Real x, Real n) {
  const Nearest half = nearest(n, 0.5);
  return x * power_of_two(half.shifted) * power_of_two(nearest(n - half.n, 1).shifted);
}

// 2^n - 1 divided by 2^n, exactly for n of -53 to 53; beyond, 1 is what it rounds to.
Real whole_part(Real n) { return 1.0 - power_of_two(nearest(select(n < 60.0, n, 60.0), -1).shifted); }

// exp(x) - 1 for -40 ≤ x, where its power of two is normal: without any cancellation.
Real expm1_within(Real x, Precision precision) {
  const Reduced reduced = reduce_by_ln2(x, precision);
  return (reduced.tail + whole_part(reduced.nearest.n)) * power_of_two(reduced.nearest.shifted);
}

// (exp(a) - 1) / 2 for a ≥ 0, where exp(a) may overflow already.
Real half_expm1(Real a, Precision precision) {
  const Reduced reduced = reduce_by_ln2(select(720.0 < a, 720.0, a), precision);
  return scale(reduced.tail + whole_part(reduced.nearest.n), reduced.nearest.n - 1.0);
}

}  // namespace

Real emit_exp(Real x, Precision precision) {
  // Beyond these ends the result is 0 or infinity, which the scaling produces by itself.
  const bool single = precision == Precision::single;
  const Reduced reduced = reduce_by_ln2(clamp(x, single ? -150 : -747, single ? 130 : 711), precision);
  const Real mantissa = reduced.tail + 1.0;
  return single ? mantissa * power_of_two(reduced.nearest.shifted) : scale(mantissa, reduced.nearest.n);
}

Real emit_exp_of(Pair x) {
  const Reduced reduced = reduce_by_ln2(clamp(x.high, -747, 711), Precision::full, &x.low);
  return scale(reduced.tail + 1.0, reduced.nearest.n);
}

Real emit_expm1(Real x, Precision precision) {
  const Reduced reduced = reduce_by_ln2(clamp(x, -40, precision == Precision::single ? 130 : 711), precision);
  const Real result = scale(reduced.tail + whole_part(reduced.nearest.n), reduced.nearest.n);
  return select(x == 0.0, x, result);  // keeps the sign of zero
}

Real emit_sinh(Real x, Precision precision) {
  // With t = (exp|x| - 1) / 2: sinh|x| = t + t / (2t + 1).
  const Real t = half_expm1(absolute(x), precision);
  const Real bounded = select(0x1p60 < t, 0x1p60, t);  // infinity / infinity is not 1/2
  return copy_sign(t + bounded / (bounded + bounded + 1.0), x);
}

Real emit_cosh(Real x, Precision precision) {
  // With h = exp|x| / 2: cosh x = h + 1 / (4h).
  const Real a = absolute(x);
  const Reduced reduced = reduce_by_ln2(select(720.0 < a, 720.0, a), precision);
  const Real h = scale(reduced.tail + 1.0, reduced.nearest.n - 1.0);
  return h + 0.25 / h;
}

Real emit_tanh(Real x, Precision precision) {
  // tanh x = t / (t + 2) with t = exp(2x) - 1; tanh 20 is 1 in double.
  const Real t = expm1_within(clamp(x + x, -40, 40), precision);
  return select(x == 0.0, x, t / (t + 2.0));
}

Real emit_erf(Real x, Precision precision) {
  // erf a = 1 - exp(-y) with y = -log(erfc a), a smooth function: y = a · (2/√π + a · Q(a/h - 1)) on [0, 2h].
  // From there on erf rounds to 1. The interpolation is off by 2^-31 (single) and 2^-59 of Q, which is less
  // than y; relative errors of y are no larger in erf.
  constexpr double kSlope = 0x1.20dd750429b6dp0;  // 2/√π
  static constexpr std::array kSingle = {
      0x1.56501bfaf1e2ap-18,  -0x1.5549d517726ddp-17, -0x1.f65d119725ab1p-19, 0x1.f60c244f2aca6p-16,
      -0x1.1db4c56c193d2p-14, 0x1.47f5d007ffc3ep-13,  -0x1.27f2ccf02831ap-12, 0x1.23ba92ea32d8cp-12,
      0x1.9b6ab2aeca870p-12,  -0x1.a6d4b4b2483ebp-9,  0x1.86881227bf77bp-7,   -0x1.1dd9228bafedbp-5,
      0x1.73ea061202aa7p-4,   0x1.8dd8f030238acp-1};
  static constexpr std::array kFull = {
      -0x1.a95bd1ec7eb38p-27, 0x1.4810e1eaacbdfp-26,  0x1.5ec041e65398ap-24,  -0x1.3433f5971268bp-23,
      -0x1.adad8903be824p-23, 0x1.a9d14d5db903dp-22,  0x1.4df3d4bc1e6aep-22,  -0x1.4ed6c48a5f1bap-21,
      -0x1.03245a5d867f9p-21, 0x1.01ac3bb89e89cp-20,  0x1.0b482078dd624p-23,  -0x1.2188552d8c71ap-21,
      -0x1.c5af6a5af7570p-24, -0x1.f90145c3d8274p-23, 0x1.f36e89cee524dp-20,  -0x1.f60180e993a2dp-19,
      0x1.84ac27f81d455p-18,  -0x1.0377e063df6c2p-17, 0x1.f029288d2665bp-18,  -0x1.b2432e295d823p-22,
      -0x1.5327e86089fccp-16, 0x1.0d4b4d739b264p-14,  -0x1.291e622a558f2p-13, 0x1.0b9804fdaa8ecp-12,
      -0x1.8fb5eaedffeebp-12, 0x1.c4fbd28b100eep-12,  -0x1.83f12c8348c0dp-13, -0x1.b93f60ef28954p-11,
      0x1.d78052def1e63p-9,   -0x1.42854c3021f95p-7,  0x1.7444f5aaa71eep-6,   -0x1.876a83b388251p-5,
      0x1.856d11f25067ap-4,   0x1.a14af6f4e75fbp-1};
  const bool single = precision == Precision::single;
  const double h = single ? 2 : 3;
  const Real all = absolute(x), a = select(2 * h < all, 2 * h, all);
  const Real t = multiply_add(a, 1 / h, -1.0);
  const Real q = single ? polynomial(t, kSingle) : polynomial(t, kFull);
  const Real y = a * multiply_add(a, q, a.like(kSlope));
  return copy_sign(expm1_within(0.0 - y, precision), x);
}

}  // namespace diji
