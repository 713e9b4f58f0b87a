// The fixed table of host functions, and the 16-bit float conversions that libgcc 12 does not have.
#include "plugins/cpu/host_symbols.h"

#include "base/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace diji::cpu {

#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv)

namespace {

// LLVM passes and returns half and bfloat in the low 16 bits of a floating-point register; _Float16 does so
// in C++ too.
using Bits16 = _Float16;

float half_to_float(Bits16 value) {
  Float16 half;
  half.bits = std::bit_cast<std::uint16_t>(value);
  return static_cast<float>(static_cast<double>(half));
}
Bits16 float_to_half(float value) { return std::bit_cast<Bits16>(Float16(static_cast<double>(value)).bits); }
Bits16 double_to_half(double value) { return std::bit_cast<Bits16>(Float16(value).bits); }
Bits16 float_to_bfloat(float value) {
  return std::bit_cast<Bits16>(BFloat16(static_cast<double>(value)).bits);
}
Bits16 double_to_bfloat(double value) { return std::bit_cast<Bits16>(BFloat16(value).bits); }

template <typename R, typename... Args>
std::uint64_t address_of(R (*function)(Args...)) {
  return std::bit_cast<std::uint64_t>(function);
}

struct Row {
  std::string_view name;
  std::uint64_t address;
};

using F = float (*)(float);
using D = double (*)(double);

}  // namespace

std::uint64_t host_symbol(std::string_view name) {
  static const std::array rows = {
      Row{"memcpy", address_of(&std::memcpy)},
      Row{"memmove", address_of(&std::memmove)},
      Row{"memset", address_of(&std::memset)},
      Row{"floorf", address_of(static_cast<F>(::floorf))},
      Row{"floor", address_of(static_cast<D>(::floor))},
      Row{"ceilf", address_of(static_cast<F>(::ceilf))},
      Row{"ceil", address_of(static_cast<D>(::ceil))},
      Row{"truncf", address_of(static_cast<F>(::truncf))},
      Row{"trunc", address_of(static_cast<D>(::trunc))},
      Row{"rintf", address_of(static_cast<F>(::rintf))},
      Row{"rint", address_of(static_cast<D>(::rint))},
      Row{"nearbyintf", address_of(static_cast<F>(::nearbyintf))},
      Row{"nearbyint", address_of(static_cast<D>(::nearbyint))},
      Row{"roundf", address_of(static_cast<F>(::roundf))},
      Row{"round", address_of(static_cast<D>(::round))},
      // llvm.roundeven: the host never leaves round-to-nearest-even, where rint is the same function.
      Row{"roundevenf", address_of(static_cast<F>(::rintf))},
      Row{"roundeven", address_of(static_cast<D>(::rint))},
      Row{"fmaf", address_of(static_cast<float (*)(float, float, float)>(::fmaf))},
      Row{"fma", address_of(static_cast<double (*)(double, double, double)>(::fma))},
      Row{"fmodf", address_of(static_cast<float (*)(float, float)>(::fmodf))},
      Row{"fmod", address_of(static_cast<double (*)(double, double)>(::fmod))},
      Row{"__extendhfsf2", address_of(half_to_float)},
      Row{"__truncsfhf2", address_of(float_to_half)},
      Row{"__truncdfhf2", address_of(double_to_half)},
      Row{"__truncsfbf2", address_of(float_to_bfloat)},
      Row{"__truncdfbf2", address_of(double_to_bfloat)},
  };
  for (const Row& row : rows) {
    if (row.name == name) return row.address;
  }
  return 0;
}

#else

std::uint64_t host_symbol(std::string_view) { return 0; }

#endif

}  // namespace diji::cpu
