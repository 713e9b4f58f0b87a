// Chooses the loops for this processor and takes elements to and from the accumulator's type, block by block.
#include "collective/reduce.h"

#include "base/check.h"
#include "collective/reduce_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace diji::collective {
namespace {

using Count = std::int64_t;
constexpr Count kBlock = 1024;  // elements: 4 KiB of f32, three of which lie in the nearest cache

const ReduceKernels& choose() {
#if defined(__x86_64__)
  const char* level = std::getenv("DIJI_CPU");
  const std::string_view wanted = level == nullptr ? "" : level;
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (v4 && (wanted.empty() || wanted == "avx512")) return avx512::kKernels;
  if (__builtin_cpu_supports("avx2") && wanted != "scalar") return avx2::kKernels;
#endif
  return baseline::kKernels;
}
const ReduceKernels& kernels() {
  static const ReduceKernels& chosen = choose();
  return chosen;
}

bool is_narrow(ElementType type) { return is_floating(type) && bytes_of(type) < 4; }

// Up to kBlock elements as `type` (f32 or f64), in `block` where they are of another one.
const std::byte* as_type(ElementType type, Operand source, Count first, Count count, std::byte* block) {
  const std::byte* data = source.data + first * bytes_of(source.type);
  if (source.type == type) return data;
  if (type == ElementType::f32) {
    kernels().widen(source.type, reinterpret_cast<float*>(block), data, count);
    return block;
  }
  CHECK(type == ElementType::f64, "elements widen to f32 or f64");
  float floats[kBlock];
  if (is_narrow(source.type)) {
    kernels().widen(source.type, floats, data, count);
  } else {
    std::memcpy(floats, data, static_cast<std::size_t>(count) * sizeof(float));
  }
  std::copy_n(floats, count, reinterpret_cast<double*>(block));
  return block;
}

// f32 or f64 elements as `type`, rounded once.
void write_as(ElementType type, std::byte* target, Operand source, Count count) {
  if (type == source.type) {
    std::memmove(target, source.data, static_cast<std::size_t>(count * bytes_of(type)));
  } else if (source.type == ElementType::f32) {
    kernels().narrow(type, target, reinterpret_cast<const float*>(source.data), count);
  } else {
    CHECK(source.type == ElementType::f64 && type == ElementType::f32,
          "f64 rounds to f32 only: one rounding");
    std::copy_n(reinterpret_cast<const double*>(source.data), count, reinterpret_cast<float*>(target));
  }
}

template <typename Body>
void in_blocks(Count count, const Body& body) {
  for (Count first = 0; first < count; first += kBlock) body(first, std::min(kBlock, count - first));
}

template <typename Visitor>
void visit_accumulator(ElementType type, const Visitor& visitor) {
  CHECK(static_cast<std::size_t>(type) < kDTypeCount && !is_narrow(type), "an accumulator's type");
  visit_dtype(static_cast<DType>(type), visitor);
}

// element[i] = change(element[i]) over accumulators in a block.
template <typename Change>
void change_block(ElementType type, std::byte* block, Count count, const Change& change) {
  visit_accumulator(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_arithmetic_v<T>) {
      T* elements = reinterpret_cast<T*>(block);
      for (Count i = 0; i < count; ++i) elements[i] = change(elements[i]);
    }
  });
}

}  // namespace

void combine(Reduction reduction, ElementType accumulator, std::byte* target, Operand left, Operand right,
             Count count, Store store) {
  if (left.type == accumulator && right.type == accumulator) {
    kernels().combine(reduction, accumulator, target, left.data, right.data, count, store);
  } else {
    alignas(64) std::byte left_block[kBlock * sizeof(double)];
    alignas(64) std::byte right_block[kBlock * sizeof(double)];
    in_blocks(count, [&](Count first, Count n) {
      kernels().combine(reduction, accumulator, target + first * bytes_of(accumulator),
                        as_type(accumulator, left, first, n, left_block),
                        as_type(accumulator, right, first, n, right_block), n, store);
    });
  }
  order(store);
}

void fold(Reduction reduction, ElementType accumulator, std::byte* target, std::span<const Operand> operands,
          Count count, Store store) {
  if (operands.size() == 1) return convert(accumulator, target, operands[0], count, store);
  if (operands.size() == 2)
    return combine(reduction, accumulator, target, operands[0], operands[1], count, store);
  alignas(64) std::byte block[kBlock * sizeof(double)];
  alignas(64) std::byte left_block[kBlock * sizeof(double)];
  alignas(64) std::byte right_block[kBlock * sizeof(double)];
  in_blocks(count, [&](Count first, Count n) {
    const std::byte* left = as_type(accumulator, operands[0], first, n, left_block);
    for (std::size_t i = 1; i < operands.size(); ++i) {
      const bool last = i + 1 == operands.size();
      kernels().combine(reduction, accumulator, last ? target + first * bytes_of(accumulator) : block, left,
                        as_type(accumulator, operands[i], first, n, right_block), n,
                        last ? store : Store::cached);
      left = block;
    }
  });
  order(store);
}

void convert(ElementType type, std::byte* target, Operand source, Count count, Store store) {
  if (type == source.type) return copy_bytes(target, source.data, count * bytes_of(type), store);
  alignas(64) std::byte block[kBlock * sizeof(double)];
  const bool widens = bytes_of(source.type) < bytes_of(type);
  in_blocks(count, [&](Count first, Count n) {
    std::byte* part = target + first * bytes_of(type);
    if (widens) {
      const std::byte* wide = as_type(type, source, first, n, block);
      std::memcpy(part, wide, static_cast<std::size_t>(n * bytes_of(type)));
    } else {
      write_as(type, part, {source.data + first * bytes_of(source.type), source.type}, n);
    }
  });
}

void finish_average(ElementType type, std::byte* target, Operand source, Count count, std::int64_t ranks) {
  alignas(64) std::byte block[kBlock * sizeof(double)];
  const std::int64_t width = bytes_of(source.type);
  in_blocks(count, [&](Count first, Count n) {
    std::memcpy(block, source.data + first * width, static_cast<std::size_t>(n * width));
    change_block(source.type, block, n, [ranks](auto value) {
      using T = decltype(value);
      if constexpr (std::is_floating_point_v<T>)
        return value / static_cast<T>(ranks);
      else if constexpr (std::is_signed_v<T>)
        return static_cast<T>(static_cast<std::int64_t>(value) / ranks);
      else
        return static_cast<T>(static_cast<std::uint64_t>(value) / static_cast<std::uint64_t>(ranks));
    });
    write_as(type, target + first * bytes_of(type), {block, source.type}, n);
  });
}

void multiply(ElementType accumulator, std::byte* target, Operand source, Count count, double factor) {
  alignas(64) std::byte block[kBlock * sizeof(double)];
  const std::int64_t width = bytes_of(accumulator);
  in_blocks(count, [&](Count first, Count n) {
    std::byte* part = target + first * width;
    std::memmove(part, as_type(accumulator, source, first, n, block), static_cast<std::size_t>(n * width));
    change_block(accumulator, part, n, [factor](auto value) {
      using T = decltype(value);
      if constexpr (std::is_floating_point_v<T>)
        return value * static_cast<T>(factor);
      else
        return static_cast<T>(static_cast<std::uint64_t>(value) *
                              static_cast<std::uint64_t>(static_cast<std::int64_t>(factor)));
    });
  });
}

void copy_bytes(std::byte* target, const std::byte* source, std::int64_t bytes, Store store) {
  if (target == source || bytes == 0) return;
  kernels().copy(target, source, bytes, store);
  order(store);
}

}  // namespace diji::collective
