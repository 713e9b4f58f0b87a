// The loops over elements. Compiled several times, DIJI_KERNELS_NAMESPACE naming the instruction set of the
// flags.
#include "collective/reduce_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

namespace diji::collective::DIJI_KERNELS_NAMESPACE {
namespace {

using Count = std::int64_t;
constexpr Count kVectorBytes = 64;  // a cache line: what a store past the caches should fill

template <typename T>
struct Sum {
  static T of(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
      return a || b;
    } else if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
template <typename T>
struct Product {
  static T of(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) {
      return a && b;
    } else if constexpr (std::is_integral_v<T>) {  // in 64 bits: what u16 promotes to is signed and may
                                                   // overflow
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }
};
// A NaN of the left operand wins, then one of the right; of two zeros -0 is less.
template <typename T>
bool negative(T value) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  return (std::bit_cast<Bits>(value) >> (sizeof(T) * 8 - 1)) != 0;
}
template <typename T>
struct Min {
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T less = b < a || (a == b && negative(b)) ? b : a;
      return a != a ? a : (b != b ? b : less);
    } else {
      return b < a ? b : a;
    }
  }
};
template <typename T>
struct Max {
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T more = a < b || (a == b && !negative(b)) ? b : a;
      return a != a ? a : (b != b ? b : more);
    } else {
      return a < b ? b : a;
    }
  }
};
template <typename T>
struct BitAnd {
  static T of(T a, T b) { return static_cast<T>(a & b); }
};
template <typename T>
struct BitOr {
  static T of(T a, T b) { return static_cast<T>(a | b); }
};
template <typename T>
struct BitXor {
  static T of(T a, T b) { return static_cast<T>(a ^ b); }
};
template <typename T>
bool truth(T value) {
  if constexpr (std::is_floating_point_v<T>) return value < 0 || value > 0;
  return value != T(0);
}
template <typename T>
struct LogicalAnd {
  static T of(T a, T b) { return T(truth(a) && truth(b)); }
};
template <typename T>
struct LogicalOr {
  static T of(T a, T b) { return T(truth(a) || truth(b)); }
};
template <typename T>
struct LogicalXor {
  static T of(T a, T b) { return T(truth(a) != truth(b)); }
};

template <typename T>
using Vector __attribute__((vector_size(kVectorBytes))) = T;

// Through a block that stays in the nearest cache: the loop vectorizes whatever the operation is, and only
// the store differs.
template <typename T>
void stream(std::byte* target, const T* block, Count count) {
  using Words = Vector<std::uint64_t>;
  const auto* words = reinterpret_cast<const Words*>(block);
  auto* out = reinterpret_cast<Words*>(target);
  for (Count i = 0; i < count * Count{sizeof(T)} / kVectorBytes; ++i)
    __builtin_nontemporal_store(words[i], out + i);
}

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % kVectorBytes == 0; }

template <template <typename> typename Op, typename T>
void loop(T* target, const T* left, const T* right, Count count) {
  for (Count i = 0; i < count; ++i) target[i] = Op<T>::of(left[i], right[i]);
}

template <template <typename> typename Op, typename T>
void combine_as(std::byte* target_bytes, const std::byte* left_bytes, const std::byte* right_bytes,
                Count count, Store store) {
  T* target = reinterpret_cast<T*>(target_bytes);
  const T* left = reinterpret_cast<const T*>(left_bytes);
  const T* right = reinterpret_cast<const T*>(right_bytes);
  if (store == Store::streaming) {  // from the first whole vector on: large malloc blocks begin 16 bytes late
    const auto past = static_cast<Count>(reinterpret_cast<std::uintptr_t>(target) % kVectorBytes);
    const Count head = past == 0 ? 0 : std::min(count, (kVectorBytes - past) / Count{sizeof(T)});
    loop<Op, T>(target, left, right, head);
    target += head, left += head, right += head, count -= head;
  }
  if (store == Store::streaming && aligned(target)) {
    constexpr Count kBlock = 4096 / sizeof(T);
    alignas(kVectorBytes) T block[kBlock];
    while (count >= kBlock) {
      loop<Op, T>(block, left, right, kBlock);
      stream(reinterpret_cast<std::byte*>(target), block, kBlock);
      target += kBlock, left += kBlock, right += kBlock, count -= kBlock;
    }
  }
  loop<Op, T>(target, left, right, count);
}

template <typename T>
void combine_type(Reduction reduction, std::byte* target, const std::byte* left, const std::byte* right,
                  Count count, Store store) {
  switch (reduction) {
    case Reduction::sum:
    case Reduction::average:
    case Reduction::premul_sum: return combine_as<Sum, T>(target, left, right, count, store);
    case Reduction::product: return combine_as<Product, T>(target, left, right, count, store);
    case Reduction::min: return combine_as<Min, T>(target, left, right, count, store);
    case Reduction::max: return combine_as<Max, T>(target, left, right, count, store);
    case Reduction::logical_and: return combine_as<LogicalAnd, T>(target, left, right, count, store);
    case Reduction::logical_or: return combine_as<LogicalOr, T>(target, left, right, count, store);
    case Reduction::logical_xor: return combine_as<LogicalXor, T>(target, left, right, count, store);
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (reduction) {
      case Reduction::bit_and: return combine_as<BitAnd, T>(target, left, right, count, store);
      case Reduction::bit_or: return combine_as<BitOr, T>(target, left, right, count, store);
      default: return combine_as<BitXor, T>(target, left, right, count, store);
    }
  }
}

void combine(Reduction reduction, ElementType type, std::byte* target, const std::byte* left,
             const std::byte* right, Count count, Store store) {
  switch (type) {
    case ElementType::f64: return combine_type<double>(reduction, target, left, right, count, store);
    case ElementType::f32: return combine_type<float>(reduction, target, left, right, count, store);
    case ElementType::i8: return combine_type<std::int8_t>(reduction, target, left, right, count, store);
    case ElementType::u8: return combine_type<std::uint8_t>(reduction, target, left, right, count, store);
    case ElementType::i16: return combine_type<std::int16_t>(reduction, target, left, right, count, store);
    case ElementType::u16: return combine_type<std::uint16_t>(reduction, target, left, right, count, store);
    case ElementType::i32: return combine_type<std::int32_t>(reduction, target, left, right, count, store);
    case ElementType::u32: return combine_type<std::uint32_t>(reduction, target, left, right, count, store);
    case ElementType::i64: return combine_type<std::int64_t>(reduction, target, left, right, count, store);
    case ElementType::u64: return combine_type<std::uint64_t>(reduction, target, left, right, count, store);
    case ElementType::boolean: return combine_type<bool>(reduction, target, left, right, count, store);
    default: break;  // the smaller floats are combined as f32
  }
}

// A float of `fraction` stored bits and `exponent` bits, as bits of f32 and back; the OCP e4m3 has no
// infinity.
template <int kExponentBits, int kFractionBits, bool kHasInfinity>
struct SmallFloat {
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kShift = 23 - kFractionBits;
  static constexpr std::uint32_t kExponentMax = (1U << kExponentBits) - 1;
  static constexpr std::uint32_t kMagnitudeBits = kExponentBits + kFractionBits;
  static constexpr std::uint32_t kNotANumber =
      kHasInfinity ? (kExponentMax << kFractionBits) | (1U << (kFractionBits - 1))
                   : (1U << kMagnitudeBits) - 1;
  static constexpr std::uint32_t kInfinity = kExponentMax << kFractionBits;

  static float widen(std::uint32_t code) {
    const std::uint32_t sign = (code >> kMagnitudeBits) << 31;
    const std::uint32_t magnitude = code & ((1U << kMagnitudeBits) - 1);
    // As an f32 whose exponent is too small by the difference of the biases: one exact product mends it,
    // subnormals too.
    float value = std::bit_cast<float>(magnitude << kShift) * std::bit_cast<float>((254U - kBias) << 23);
    if (kHasInfinity && magnitude >= kInfinity) {
      value = std::bit_cast<float>(0x7f800000U | ((magnitude - kInfinity) << kShift));
    }
    if (!kHasInfinity && magnitude == kNotANumber) value = std::bit_cast<float>(0x7fc00000U);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }

  static std::uint32_t narrow(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 31) << kMagnitudeBits;
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(127 - kBias + 1) << 23;
    // Normal: round to nearest even on the bits. Subnormal: the sum with a power of two leaves the wanted
    // bits last.
    const std::uint32_t rounded =
        (magnitude + ((1U << (kShift - 1)) - 1) + ((magnitude >> kShift) & 1U)) >> kShift;
    const std::uint32_t normal = rounded - (static_cast<std::uint32_t>(127 - kBias) << kFractionBits);
    constexpr std::uint32_t kMagic = static_cast<std::uint32_t>(127 - kBias + 1 + kShift) << 23;
    const float aligned_sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMagic);
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(aligned_sum) - kMagic;
    std::uint32_t code = magnitude < kSmallestNormal ? subnormal : normal;
    // What is too large becomes infinity, or NaN where there is none (OCP OFP8, section 5.2, no saturation).
    code = code >= (kHasInfinity ? kInfinity : kNotANumber) ? (kHasInfinity ? kInfinity : kNotANumber) : code;
    if (magnitude > 0x7f800000U) code = kNotANumber;
    return code | sign;
  }
};
using HalfFormat = SmallFloat<5, 10, true>;
using E4M3 = SmallFloat<4, 3, false>;
using E5M2 = SmallFloat<5, 2, true>;

std::uint16_t narrow_bfloat(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>(value != value ? ((bits >> 16) | 0x40U) : rounded);
}

template <typename Code, auto kWiden>
void widen_as(float* target, const std::byte* source, Count count) {
  const Code* codes = reinterpret_cast<const Code*>(source);
  for (Count i = 0; i < count; ++i) target[i] = kWiden(codes[i]);
}
template <typename Code, auto kNarrow>
void narrow_as(std::byte* target, const float* source, Count count) {
  Code* codes = reinterpret_cast<Code*>(target);
  for (Count i = 0; i < count; ++i) codes[i] = static_cast<Code>(kNarrow(source[i]));
}

float widen_bfloat(std::uint32_t code) { return std::bit_cast<float>(code << 16); }

void widen(ElementType from, float* target, const std::byte* source, Count count) {
  switch (from) {
    case ElementType::f16: return widen_as<std::uint16_t, HalfFormat::widen>(target, source, count);
    case ElementType::bf16: return widen_as<std::uint16_t, widen_bfloat>(target, source, count);
    case ElementType::f8e4m3: return widen_as<std::uint8_t, E4M3::widen>(target, source, count);
    default: return widen_as<std::uint8_t, E5M2::widen>(target, source, count);
  }
}

void narrow(ElementType to, std::byte* target, const float* source, Count count) {
  switch (to) {
    case ElementType::f16: return narrow_as<std::uint16_t, HalfFormat::narrow>(target, source, count);
    case ElementType::bf16: return narrow_as<std::uint16_t, narrow_bfloat>(target, source, count);
    case ElementType::f8e4m3: return narrow_as<std::uint8_t, E4M3::narrow>(target, source, count);
    default: return narrow_as<std::uint8_t, E5M2::narrow>(target, source, count);
  }
}

void copy(std::byte* target, const std::byte* source, Count bytes, Store store) {
  if (store == Store::streaming && bytes >= 4 * kVectorBytes) {
    const Count head =
        (kVectorBytes - static_cast<Count>(reinterpret_cast<std::uintptr_t>(target) % kVectorBytes)) %
        kVectorBytes;
    std::memcpy(target, source, static_cast<std::size_t>(head));
    target += head, source += head, bytes -= head;
    using Words = Vector<std::uint64_t>;
    for (; bytes >= kVectorBytes; target += kVectorBytes, source += kVectorBytes, bytes -= kVectorBytes) {
      Words words;
      std::memcpy(&words, source, kVectorBytes);
      __builtin_nontemporal_store(words, reinterpret_cast<Words*>(target));
    }
  }
  std::memcpy(target, source, static_cast<std::size_t>(bytes));
}

}  // namespace

constexpr ReduceKernels kKernels = {combine, widen, narrow, copy};

}  // namespace diji::collective::DIJI_KERNELS_NAMESPACE
