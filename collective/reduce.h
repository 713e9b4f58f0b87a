// What happens to elements on the way: combining two, converting, finishing. Host code; a device brings its
// own.
#pragma once

#include "base/error.h"
#include "collective/operation.h"
#include "collective/processor.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace diji::collective {

/// Elements in memory: where, and of which type.
struct Operand {
  const std::byte* data = nullptr;
  ElementType type = ElementType::f32;
};

/// Whether what is written will be read soon (it stays in the caches) or not (it goes past them).
enum class Store : std::uint8_t { cached, streaming };

/// Between stores of that kind and the flag that says the data are there.
template <typename Machine = Processor>
void order(Store store) {
  if (store == Store::streaming) Machine::streaming_fence();
}

/// target[i] = left[i] combined with right[i], computed in `accumulator`, the type of `target`. Operands of
/// another type are converted first (exactly: they are narrower). `target` may be the memory of an operand of
/// its own type. The result depends on the two values and their order only (which of two NaNs, -0 against 0),
/// never on the position. Average and premul_sum combine as sum.
void combine(Reduction reduction, ElementType accumulator, std::byte* target, Operand left, Operand right,
             std::int64_t count, Store store = Store::cached);

/// target[i] = the left fold of all operands' elements i, in one pass over the memory. One operand: a
/// conversion.
void fold(Reduction reduction, ElementType accumulator, std::byte* target, std::span<const Operand> operands,
          std::int64_t count, Store store = Store::cached);

/// What a communicator combines elements with in place of combine() and fold(): a device, for whoever has
/// one.
class Reducer {
 public:
  Reducer() = default;
  virtual ~Reducer() = default;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  /// As combine() above, with the same bits, but for which of several NaNs it is. Any thread. Errors: a
  /// device's; they end the call.
  virtual Result<void> combine(Reduction reduction, ElementType accumulator, std::byte* target, Operand left,
                               Operand right, std::int64_t count) = 0;
};

/// target[i] = source[i] as `type`, rounded once to nearest, ties to even. Types: equal, or two floats.
void convert(ElementType type, std::byte* target, Operand source, std::int64_t count,
             Store store = Store::cached);

/// The last step of an average: target[i] = source[i] / ranks in the type of `source`, rounded once to
/// `type`. Integers: toward zero.
void finish_average(ElementType type, std::byte* target, Operand source, std::int64_t count,
                    std::int64_t ranks);

/// target[i] = source[i] * factor in `accumulator`. Integers: the factor's integer part, product wraps.
void multiply(ElementType accumulator, std::byte* target, Operand source, std::int64_t count, double factor);

/// A copy for large buffers: past the caches when asked.
void copy_bytes(std::byte* target, const std::byte* source, std::int64_t bytes, Store store = Store::cached);

}  // namespace diji::collective
