// Philox4x32-10 as a composition of integer operations, and numbers made of its bits.
#include "ops/random_numbers.h"

#include "base/philox.h"
#include "ops/formula.h"
#include "ops/rules.h"

#include <array>
#include <numbers>
#include <utility>

namespace diji {
namespace {

constexpr std::uint64_t kWord = 0xffffffffU;

ValueId u64(Builder& b, std::uint64_t value) {
  return b.constant(HostTensor::of<std::uint64_t>({}, {value}));
}

ValueId low_word(Builder& b, ValueId x) { return b.map(Primitive::bit_and, {x, u64(b, kWord)}); }

ValueId shifted_right(Builder& b, ValueId x, std::uint64_t bits) {
  return b.map(Primitive::shift_right, {x, u64(b, bits)});
}

ValueId exclusive_or(Builder& b, ValueId x, ValueId y) { return b.map(Primitive::bit_xor, {x, y}); }

using Words = std::array<ValueId, 4>;

// philox4x32 of base/philox.h. All words are u64 below 2^32: a product of two is whole, and devices have one
// width of integers to get right.
Words philox(Builder& b, Words counter, ValueId key) {
  const ValueId low_key = low_word(b, key), high_key = shifted_right(b, key, 32);
  const auto round_key = [&](ValueId start, int round, std::size_t half) {
    const std::uint64_t step = std::uint64_t{Philox::kKeySteps[half]} * static_cast<std::uint64_t>(round);
    return round == 0 ? start : low_word(b, b.add(start, u64(b, step & kWord)));
  };
  for (int round = 0; round < Philox::kRounds; ++round) {
    const ValueId p = b.multiply(u64(b, Philox::kMultipliers[0]), counter[0]);
    const ValueId q = b.multiply(u64(b, Philox::kMultipliers[1]), counter[2]);
    const auto mixed = [&](ValueId product, ValueId word, ValueId start, std::size_t half) {
      return exclusive_or(b, exclusive_or(b, shifted_right(b, product, 32), word),
                          round_key(start, round, half));
    };
    counter = {mixed(q, counter[1], low_key, 0), low_word(b, q), mixed(p, counter[3], high_key, 1),
               low_word(b, p)};
  }
  return counter;
}

// An own counter for each element, the stream beside it.
Words words_of(Builder& b, Shape shape, ValueId key, std::int64_t stream) {
  const Dim count = element_count(shape);
  const ValueId position = b.convert(b.reshape(b.iota({count}, 0), std::move(shape)), DType::u64);
  const auto number = static_cast<std::uint64_t>(stream);
  return philox(
      b,
      {low_word(b, position), shifted_right(b, position, 32), u64(b, number & kWord), u64(b, number >> 32U)},
      key == ValueId::none ? u64(b, 0) : key);
}

// An integer below 2^53 as a float.
ValueId as_float(Builder& b, ValueId word, DType dtype) {
  return b.convert(b.convert(word, DType::i64), dtype);
}

// 53 bits of two words.
ValueId long_word(Builder& b, ValueId high, ValueId low) {
  const ValueId upper = b.map(Primitive::shift_left, {shifted_right(b, high, 5), u64(b, 26)});
  return b.map(Primitive::bit_or, {upper, shifted_right(b, low, 6)});
}

}  // namespace

HostTensor random_key(std::uint64_t seed, std::uint64_t run) {
  const auto word = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto words = philox4x32({word(run), word(run >> 32U), 0, 0}, {word(seed), word(seed >> 32U)});
  return HostTensor::of<std::uint64_t>({}, {words[0] | std::uint64_t{words[1]} << 32U});
}

ValueId fold_in(Builder& b, ValueId key, ValueId number) {
  const ValueId n = b.convert(number, DType::u64), zero = u64(b, 0);
  // The last word tells these counters from those of elements, whose streams end below it.
  const Words words = philox(b, {low_word(b, n), shifted_right(b, n, 32), zero, u64(b, kWord)}, key);
  return b.map(Primitive::bit_or, {words[0], b.map(Primitive::shift_left, {words[1], u64(b, 32)})});
}

ValueId uniform_numbers(Builder& b, Shape shape, DType dtype, ValueId key, std::int64_t stream) {
  const Words words = words_of(b, std::move(shape), key, stream);
  if (dtype == DType::f64)
    return b.multiply(as_float(b, long_word(b, words[0], words[1]), dtype), b.scalar(dtype, 0x1p-53));
  return b.multiply(as_float(b, shifted_right(b, words[0], 8), dtype), b.scalar(dtype, 0x1p-24));
}

// sqrt(-2 ln u) cos(2 π v); u lies in the middle of its cell, so never at 0.
ValueId normal_numbers(Builder& b, Shape shape, DType dtype, ValueId key, std::int64_t stream) {
  const Words words = words_of(b, std::move(shape), key, stream);
  const bool wide = dtype == DType::f64;
  const ValueId first = wide ? long_word(b, words[0], words[1]) : words[0];
  const ValueId second = wide ? long_word(b, words[2], words[3]) : words[1];
  const double cell = wide ? 0x1p-53 : 0x1p-32;
  const ValueId u =
      b.add(b.multiply(as_float(b, first, dtype), b.scalar(dtype, cell)), b.scalar(dtype, cell / 2));
  const ValueId angle = b.multiply(as_float(b, second, dtype), b.scalar(dtype, 2 * std::numbers::pi * cell));
  const ValueId radius = b.sqrt(b.multiply(b.scalar(dtype, -2), b.log(u)));
  return b.multiply(radius, b.map(Primitive::cos, {angle}));
}

}  // namespace diji
