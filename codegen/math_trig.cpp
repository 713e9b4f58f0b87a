// Trigonometric functions and their inverses.
#include "codegen/math.h"

#include <array>
#include <cmath>
#include <limits>

namespace diji {
namespace {

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// π/2 to twice the precision, and π.
constexpr double kHalfPi = 0x1.921fb54442d18p0, kHalfPiRest = 0x1.1a62633145c07p-54;
constexpr double kPi = 2 * kHalfPi, kPiRest = 2 * kHalfPiRest;

// x = q·π/2 + r, |r| ≤ π/4 (a little more is no harm); q in the low bits.
struct Quadrant {
  Pair r;
  Bits q;
};

// Up to |x| = 2^20, where q has 20 bits: π/2 in parts of 33 bits, so that q times a part is exact. What is
// left of x after the first one is exact too, as both are close (Cody and Waite).
constexpr double kNear = 0x1p20;

Quadrant reduce_near(Real x, Precision precision) {
  constexpr double kFirst = 0x1.921fb544p0, kSecond = 0x1.0b4611a6p-34, kThird = 0x1.3198a2ep-69,
                   kFourth = 0x1.b839a252049c1p-104, kAfterFirst = 0x1.0b4611a626331p-34;
  const Nearest q = nearest(x, kTwoOverPi);
  const Real first = multiply_add(q.n, -kFirst, x);
  // An f32 comes no closer to a multiple of π/2 than 2^-30 or so.
  if (precision == Precision::single) return {{multiply_add(q.n, -kAfterFirst, first), x.like(0)}, q.shifted};
  const Pair second = two_sum(first, q.n * -kSecond), third = two_sum(second.high, q.n * -kThird);
  const Real low = multiply_add(q.n, -kFourth, second.low + third.low);
  return {fast_two_sum(third.high, low), q.shifted};
}

// Bits of 2/π in chunks that the product with x (or a half of it) holds exactly; chunk i is worth
// 2^(-width·(i
// + 1)). As many as the largest x needs for 2^-120 beyond its unit (Payne and Hanek's method without their
// choice of a window: chunks that only give multiples of 4 give 0).
constexpr std::array kChunksSingle = {0xa2f9836, 0xe4e4415, 0x29fc275, 0x7d1f534,
                                      0xddc0db6, 0x295993c, 0x439041f, 0xe5163ab};
constexpr std::array kChunks = {
    0x28be60d, 0x2e4e441, 0x14a7f09, 0x357d1f5, 0x0d37703, 0x1b62959, 0x24f10e4, 0x041fe51, 0x18eaf7a,
    0x3bc561b, 0x1c91b8e, 0x2424dd2, 0x3801924, 0x2eea09d, 0x064873f, 0x21deb1c, 0x2c4a69c, 0x3ee8823,
    0x17d4bae, 0x34484e9, 0x271c09a, 0x345f7e4, 0x04e6475, 0x2398353, 0x0e7d272, 0x045f8bb, 0x37e4a0e,
    0x31ff897, 0x3ff7816, 0x180fef2, 0x3c462d6, 0x20a6d1f, 0x1b4d9fb, 0x0f27cb0, 0x26dd3d1, 0x23f669e,
    0x17fa8b5, 0x3527bac, 0x1faf97c, 0x17b3d07, 0x0e7de29, 0x1292ea6, 0x2fed7ec, 0x11f8d5d, 0x021580c};

// Chunk number i of the table, a scalar: the loop over them is rare, so a chain of selections will do.
Real chunk(NestBuilder& b, Reg i, std::span<const double> chunks, int lanes) {
  const LaneType scalar{DType::f64, 1};
  Reg result = b.real(chunks[0], scalar);
  for (std::size_t k = 1; k < chunks.size(); ++k) {
    const Reg here = b.equal(i, b.integer(static_cast<std::int64_t>(k)));
    result = b.select(here, b.real(chunks[k], scalar), result);
  }
  return {&b, b.splat(result, lanes)};
}

// sum + (product mod 4), as three parts without any error. To the nearest multiple: what is small stays as it
// is.
std::array<Real, 3> add_modulo_4(const std::array<Real, 3>& sum, Real product) {
  const Real residue = multiply_add(round_even(product * 0.25), -4.0, product);
  const Pair high = two_sum(sum[0], residue), middle = two_sum(sum[1], high.low);
  return {high.high, middle.high, sum[2] + middle.low};
}

Quadrant reduce_far(Real x, Precision precision) {
  const bool single = precision == Precision::single;
  NestBuilder& b = *x.b;
  const int lanes = x.type().lanes;
  // The last chunks are below the normal numbers unless they are worth more and x less.
  const int width = single ? 28 : 26, shift = single ? 0 : 200;
  std::vector<double> worth;
  for (const int bits_of_chunk : single ? std::span<const int>(kChunksSingle) : std::span<const int>(kChunks))
    worth.push_back(std::ldexp(bits_of_chunk, shift - width * static_cast<int>(worth.size() + 1)));
  const Real scaled = x * std::ldexp(1.0, -shift);
  const Real head = single ? scaled : real(bits(scaled) & ~std::uint64_t{0x7ffffff}), tail = scaled - head;
  const Reg zero = x.like(0).reg;
  const auto sums =
      b.loop(b.integer(0), b.integer(std::ssize(worth)), b.integer(1), {zero, zero, zero},
             [&](Reg i, std::span<const Reg> carried) -> std::vector<Reg> {
               std::array<Real, 3> sum = {Real{&b, carried[0]}, Real{&b, carried[1]}, Real{&b, carried[2]}};
               const Real part = chunk(b, i, worth, lanes);
               sum = add_modulo_4(sum, head * part);
               if (!single) sum = add_modulo_4(sum, tail * part);
               return {sum[0].reg, sum[1].reg, sum[2].reg};
             });
  const Nearest q = nearest({&b, sums[0]}, 1);
  const Pair fraction = two_sum(Real{&b, sums[0]} - q.n, {&b, sums[1]});
  const Real rest = fraction.low + Real{&b, sums[2]};
  // (fraction + rest) · π/2
  const Pair r = two_product(fraction.high, x.like(kHalfPi));
  const Real low = multiply_add(fraction.high, kHalfPiRest, multiply_add(rest, kHalfPi, r.low));
  return {fast_two_sum(r.high, low), q.shifted};
}

Quadrant reduce(Real x, Precision precision) {
  NestBuilder& b = *x.b;
  const Quadrant near = reduce_near(x, precision);
  const Mask far = kNear < absolute(x);
  const auto chosen = b.loop(b.integer(0), b.convert(b.any(far.reg), DType::i64), b.integer(1),
                             {near.r.high.reg, near.r.low.reg, near.q.reg},
                             [&](Reg, std::span<const Reg> carried) -> std::vector<Reg> {
                               const Quadrant all = reduce_far(x, precision);
                               return {b.select(far.reg, all.r.high.reg, carried[0]),
                                       b.select(far.reg, all.r.low.reg, carried[1]),
                                       b.select(far.reg, all.q.reg, carried[2])};
                             });
  return {{{&b, chosen[0]}, {&b, chosen[1]}}, {&b, chosen[2]}};
}

struct SineCosine {
  Real sine, cosine;
};

// On |r| ≤ π/4: r + r³·S(r²) and 1 - r²/2 + r⁴·C(r²), S and C off by 2^-32 and 2^-34 (single), 2^-53 and
// 2^-55; the low part of r by the derivatives.
SineCosine sine_cosine(Pair r, Precision precision) {
  static constexpr std::array kSineSingle = {0x1.6dbdd26f56d2cp-19, -0x1.a013a6edc8f34p-13,
                                             0x1.11110deeb33b2p-7, -0x1.555555545dd83p-3};
  static constexpr std::array kSine = {0x1.5e0af186af738p-33,  -0x1.ae600a926c89ap-26, 0x1.71de37961e4c6p-19,
                                       -0x1.a01a019e8357dp-13, 0x1.1111111110bb1p-7,   -0x1.5555555555555p-3};
  static constexpr std::array kCosineSingle = {-0x1.25242a3a172d9p-22, 0x1.a015c40ec65ebp-16,
                                               -0x1.6c16bf5495185p-10, 0x1.5555555502be6p-5};
  static constexpr std::array kCosine = {-0x1.907d7aebd5de5p-37, 0x1.1eeb68b109172p-29,
                                         -0x1.27e4fa17a41b4p-22, 0x1.a01a019f4e867p-16,
                                         -0x1.6c16c16c16966p-10, 0x1.5555555555555p-5};
  const Real x = r.high, z = x * x;
  if (precision == Precision::single) {
    const Real cosine = multiply_add(z, polynomial(z, kCosineSingle), x.like(-0.5));
    return {multiply_add(x * z, polynomial(z, kSineSingle), x), multiply_add(z, cosine, x.like(1))};
  }
  const Real half = 0.5 * z, one_less = 1.0 - half;
  const Real sine = multiply_add(x * z, polynomial(z, kSine), r.low * one_less);
  const Real cosine = multiply_add(z * z, polynomial(z, kCosine), 0.0 - x * r.low);
  return {x + sine, one_less + (((1.0 - one_less) - half) + cosine)};
}

// x with its sign flipped where bit `position` of q is set.
Real flipped(Real x, Bits q, unsigned position) {
  return real(bits(x) ^ ((q << (63 - position)) & 0x8000000000000000));
}

}  // namespace

Real emit_sin(Real x, Precision precision) {
  const Quadrant quadrant = reduce(x, precision);
  const auto [sine, cosine] = sine_cosine(quadrant.r, precision);
  const Mask even = (quadrant.q & 1) == 0;
  return select(x == 0.0, x, flipped(select(even, sine, cosine), quadrant.q, 1));
}

Real emit_cos(Real x, Precision precision) {
  const Quadrant quadrant = reduce(x, precision);
  const auto [sine, cosine] = sine_cosine(quadrant.r, precision);
  const Mask even = (quadrant.q & 1) == 0;
  return flipped(select(even, cosine, sine), quadrant.q + 1, 1);
}

Real emit_tan(Real x, Precision precision) {
  const Quadrant quadrant = reduce(x, precision);
  const auto [sine, cosine] = sine_cosine(quadrant.r, precision);
  const Mask even = (quadrant.q & 1) == 0;
  const Real ratio = select(even, sine, cosine) / select(even, cosine, sine);
  return select(x == 0.0, x, flipped(ratio, quadrant.q, 0));
}

Real emit_atan(Real x, Precision precision) {
  // atan t = t + t·z·A(z), z = t² ≤ 1, A off by 2^-29 (single) and 2^-53 of itself, z·A ≤ 0.22; beyond 1,
  // π/2 - atan(1/t).
  static constexpr std::array kSingle = {-0x1.eae3fce3e99f1p-11, 0x1.96cc733874cbbp-8,  -0x1.3b92d4977adcap-6,
                                         0x1.39fa7ae12abdfp-5,   -0x1.d7eaf8f924f81p-5, 0x1.2fd217ccc6a6ap-4,
                                         -0x1.72251c83739b3p-4,  0x1.c6d94a4e392f3p-4,  -0x1.249035356f79fp-3,
                                         0x1.99998c8c70e06p-3,   -0x1.5555554e74b35p-2};
  static constexpr std::array kFull = {
      0x1.2f07811f9f547p-16, -0x1.a359b96a4ece5p-13, 0x1.1325b2f89639dp-10, -0x1.ca3677db664e9p-9,
      0x1.123baedb61a00p-7,  -0x1.fd0e4de8fec8bp-7,  0x1.843f4bca232e3p-6,  -0x1.00390504e9efap-5,
      0x1.3328700bb8149p-5,  -0x1.5d02278205cb8p-5,  0x1.841dcf603a204p-5,  -0x1.aebbb1647a167p-5,
      0x1.e1d0239d392a6p-5,  -0x1.110fff599e4d2p-4,  0x1.3b1399d1dcdc7p-4,  -0x1.745d15ee35819p-4,
      0x1.c71c71bb00a6cp-4,  -0x1.24924924753ecp-3,  0x1.9999999999620p-3,  -0x1.5555555555555p-2};
  const Real a = absolute(x);
  const Mask beyond = 1.0 < a;
  const Real t = select(beyond, -1.0, a) / select(beyond, a, 1.0);
  const Real z = t * t;
  const Real tail = t * z * (precision == Precision::single ? polynomial(z, kSingle) : polynomial(z, kFull));
  const Real start = select(beyond, kHalfPi, a.like(0)), rest = select(beyond, kHalfPiRest, a.like(0));
  return copy_sign(start + (t + (tail + rest)), x);
}

namespace {

// asin(s)/s - 1 for z = s² ≤ 1/4: z·A(z), A off by 2^-25 (single) and 2^-53 of itself, z·A ≤ 0.048.
Real arc_sine_tail(Real z, Precision precision) {
  static constexpr std::array kSingle = {0x1.13fed3dd24640p-5, 0x1.18f91e7971219p-6, 0x1.fd8da2554dd5fp-6,
                                         0x1.6d5bb95f8e651p-5, 0x1.333430fcff28ep-4, 0x1.555554e435732p-3};
  static constexpr std::array kFull = {0x1.d72b2bc815801p-6, -0x1.e6aaa8a0a0b24p-7, 0x1.1d1894083171bp-6,
                                       0x1.65a9c4dfcf53fp-8, 0x1.52420b04b382ep-7,  0x1.782651caa6534p-7,
                                       0x1.c9cf07674736cp-7, 0x1.1c4d35cf95421p-6,  0x1.6e8bb1c8209a2p-6,
                                       0x1.f1c71c1db0623p-6, 0x1.6db6db6e31f13p-5,  0x1.3333333332ecap-4,
                                       0x1.5555555555556p-3};
  return z * (precision == Precision::single ? polynomial(z, kSingle) : polynomial(z, kFull));
}

// Up to 1/2 the sine itself; beyond, asin a = π/2 - 2·asin √((1 - a)/2), where 1 - a is exact.
struct ArcArgument {
  Mask beyond;
  Real s, tail;  // asin s = s + tail
};

ArcArgument arc_argument(Real a, Precision precision) {
  const Mask beyond = 0.5 < a;
  const Real z = select(beyond, 0.5 * (1.0 - a), a * a);
  const Real s = select(beyond, square_root(z), a);
  return {beyond, s, s * arc_sine_tail(z, precision)};
}

}  // namespace

Real emit_asin(Real x, Precision precision) {
  const auto [beyond, s, tail] = arc_argument(absolute(x), precision);
  const Real from_right = kHalfPi - (2.0 * s + (2.0 * tail - kHalfPiRest));
  return copy_sign(select(beyond, from_right, s + tail), x);
}

Real emit_acos(Real x, Precision precision) {
  const auto [beyond, s, tail] = arc_argument(absolute(x), precision);
  const Mask negative = x < 0.0;
  const Real sine = copy_sign(s, x), sine_tail = copy_sign(tail, x);
  const Real middle = kHalfPi - (sine + (sine_tail - kHalfPiRest));
  const Real right = 2.0 * (s + tail), left = kPi - (2.0 * s + (2.0 * tail - kPiRest));
  return select(beyond, select(negative, left, right), middle);
}

}  // namespace diji
