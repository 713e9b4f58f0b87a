// Outputs of collectives against what the operation says, element by element, from inputs that follow from
// rank and index.
#include "tools/collective_check.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

namespace diji::tools {
namespace {

using collective::Call;
using collective::Communicator;
using collective::ElementType;
using collective::Operation;
using collective::Reduction;

// Small integers, which all types hold and whose sums round nowhere.
std::int64_t value_at(const Call& call, int rank, std::int64_t index) {
  const std::int64_t value = (index * 7 + rank * 3) % 5;
  return call.type == ElementType::boolean ? value % 2 : value;
}

std::int64_t reduced(const Call& call, int ranks, std::int64_t index) {
  std::int64_t result = value_at(call, 0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t value = value_at(call, rank, index);
    switch (call.reduction) {
      case Reduction::sum: result += value; break;
      case Reduction::min: result = std::min(result, value); break;
      case Reduction::max: result = std::max(result, value); break;
      case Reduction::product: result *= value; break;
      case Reduction::bit_and: result &= value; break;
      case Reduction::bit_or: result |= value; break;
      case Reduction::bit_xor: result ^= value; break;
      case Reduction::logical_and: result = result != 0 && value != 0; break;
      case Reduction::logical_or: result = result != 0 || value != 0; break;
      case Reduction::logical_xor: result = (result != 0) != (value != 0); break;
      default: break;
    }
  }
  return call.type == ElementType::boolean ? std::int64_t{result != 0} : result;
}

void write_element(ElementType type, std::byte* at, std::int64_t value) {
  visit_dtype(static_cast<DType>(type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T element = [&] {
      if constexpr (std::is_arithmetic_v<T>)
        return static_cast<T>(value);
      else
        return T(static_cast<double>(value));
    }();
    std::memcpy(at, &element, sizeof element);
  });
}

// What rank `rank` must have at `index` of its output; nothing: it has none.
std::optional<std::int64_t> expected(const Call& call, int rank, int world, std::int64_t count,
                                     std::int64_t index) {
  const int root = call.root;
  switch (call.operation) {
    case Operation::all_reduce: return reduced(call, world, index);
    case Operation::reduce: return rank == root ? std::optional(reduced(call, world, index)) : std::nullopt;
    case Operation::scan: return reduced(call, rank + 1, index);
    case Operation::exscan: return rank > 0 ? std::optional(reduced(call, rank, index)) : std::nullopt;
    case Operation::broadcast: return value_at(call, root, index);
    case Operation::all_gather: return value_at(call, static_cast<int>(index / count), index % count);
    case Operation::gather:
      return rank == root ? std::optional(value_at(call, static_cast<int>(index / count), index % count))
                          : std::nullopt;
    case Operation::reduce_scatter: return reduced(call, world, rank * count + index);
    case Operation::scatter: return value_at(call, root, rank * count + index);
    case Operation::all_to_all:
      return value_at(call, static_cast<int>(index / count), rank * count + index % count);
    default: return std::nullopt;
  }
}

}  // namespace

Result<std::int64_t> count_wrong(Communicator& communicator, Call call, std::byte* input, std::byte* output) {
  constexpr std::int64_t kLooksMax = 1 << 20;
  const int world = communicator.world();
  const std::int64_t width = bytes_of(call.type);
  const std::int64_t given = collective::input_count(call, communicator.rank(), world);
  const std::int64_t got = collective::output_count(call, communicator.rank(), world);
  for (std::int64_t i = 0; i < given; ++i)
    write_element(call.type, input + i * width, value_at(call, communicator.rank(), i));
  call.input = input;
  call.output = output;
  TRY(communicator.run(call));
  std::int64_t wrong = 0;
  std::byte element[8] = {};
  for (std::int64_t i = 0; i < got; i += std::max<std::int64_t>(got / kLooksMax, 1)) {
    const auto value = expected(call, communicator.rank(), world, call.count, i);
    if (!value) break;
    write_element(call.type, element, *value);
    wrong += std::memcmp(element, output + i * width, static_cast<std::size_t>(width)) != 0 ? 1 : 0;
  }
  std::int64_t all = 0;
  TRY(communicator.run({.operation = Operation::all_reduce,
                        .input = &wrong,
                        .output = &all,
                        .count = 1,
                        .type = ElementType::i64}));
  return all;
}

}  // namespace diji::tools
