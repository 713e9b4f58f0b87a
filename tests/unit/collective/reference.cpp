// Element by element, rank by rank, in double and int64: nothing here is shared with the library but the
// words.
#include "tests/unit/collective/reference.h"

#include "base/check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace diji::collective {
namespace {

using Bytes = std::vector<std::byte>;

// A value of either kind; which one follows from the type.
struct Value {
  double real = 0;
  std::uint64_t bits = 0;  ///< of an integer or bool
};

double decode_f8(ElementType type, unsigned code) {
  const int fraction_bits = type == ElementType::f8e4m3 ? 3 : 2;
  const int bias = type == ElementType::f8e4m3 ? 7 : 15;
  const int exponent = static_cast<int>(code & 0x7f) >> fraction_bits;
  const int fraction = static_cast<int>(code) & ((1 << fraction_bits) - 1);
  if (type == ElementType::f8e4m3 && (code & 0x7f) == 0x7f) return std::nan("");
  if (type == ElementType::f8e5m2 && exponent == 31) {
    return fraction != 0 ? std::nan("") : (code & 0x80 ? -INFINITY : INFINITY);
  }
  const double scale = std::ldexp(1.0, (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
  const double magnitude = scale * ((exponent == 0 ? 0 : 1 << fraction_bits) + fraction);
  return code & 0x80 ? -magnitude : magnitude;
}

// Nearest by search; of two equally near the even code; past the middle beyond the largest: infinity or NaN.
unsigned encode_f8(ElementType type, double value) {
  const unsigned sign = std::signbit(value) ? 0x80 : 0;
  const unsigned largest = type == ElementType::f8e4m3 ? 0x7e : 0x7b;
  const unsigned beyond = type == ElementType::f8e4m3 ? 0x7f : 0x7c;
  if (std::isnan(value)) return 0x7f | sign;
  const double magnitude = std::fabs(value);
  const double top = decode_f8(type, largest);
  const double half_step = (top - decode_f8(type, largest - 1)) / 2;
  if (magnitude > top + half_step || (magnitude == top + half_step && largest % 2 == 1)) return beyond | sign;
  unsigned best = 0;
  for (unsigned code = 0; code <= largest; ++code) {
    const double distance = std::fabs(decode_f8(type, code) - magnitude);
    const double best_distance = std::fabs(decode_f8(type, best) - magnitude);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) best = code;
  }
  return best | sign;
}

Value load(ElementType type, const std::byte* at) {
  Value value;
  switch (type) {
    case ElementType::f8e4m3:
    case ElementType::f8e5m2: value.real = decode_f8(type, std::to_integer<unsigned>(*at)); return value;
    default: break;
  }
  visit_dtype(static_cast<DType>(type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T element;
    std::memcpy(&element, at, sizeof element);
    if constexpr (std::is_integral_v<T>) {
      value.bits = static_cast<std::uint64_t>(element);
    } else {
      value.real = static_cast<double>(element);
    }
  });
  return value;
}

void store(ElementType type, std::byte* at, const Value& value) {
  if (type == ElementType::f8e4m3 || type == ElementType::f8e5m2) {
    *at = static_cast<std::byte>(encode_f8(type, value.real));
    return;
  }
  visit_dtype(static_cast<DType>(type), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T element;
    if constexpr (std::is_same_v<T, bool>) {
      element = value.bits != 0;
    } else if constexpr (std::is_integral_v<T>) {
      element = static_cast<T>(value.bits);
    } else {
      element = static_cast<T>(value.real);
    }
    std::memcpy(at, &element, sizeof element);
  });
}

bool equal(ElementType type, const std::byte* a, const std::byte* b) {
  if (is_floating(type) && std::isnan(load(type, a).real) && std::isnan(load(type, b).real)) return true;
  return std::memcmp(a, b, static_cast<std::size_t>(bytes_of(type))) == 0;
}

// Small integers, which every type has and whose sums and products are exact, or reals that round.
Value value_of(const CallCase& c, int rank, std::int64_t index) {
  const std::uint64_t hash =
      (static_cast<std::uint64_t>(rank) * 1'000'003 + static_cast<std::uint64_t>(index) + 17) *
      0x9e3779b97f4a7c15;
  if (c.type == ElementType::boolean) return {.bits = hash >> 63};
  const auto small = static_cast<std::int64_t>(hash >> 32) % 5 - 2;
  if (!is_floating(c.type)) return {.bits = static_cast<std::uint64_t>(small)};
  if (!c.reals) return {.real = static_cast<double>(small)};
  return {.real = std::ldexp(static_cast<double>(static_cast<std::int64_t>(hash) >> 11), -50)};
}

// One step of the fold, with floats rounded to the accumulator's type.
Value combined(const CallCase& c, ElementType accumulator, const Value& a, const Value& b) {
  const auto round = [&](double value) {
    return accumulator == ElementType::f64 ? value : static_cast<double>(static_cast<float>(value));
  };
  const bool real = is_floating(c.type);
  const bool has_sign = real || c.type == ElementType::i8 || c.type == ElementType::i16 ||
                        c.type == ElementType::i32 || c.type == ElementType::i64;
  const auto less = [&](const Value& x, const Value& y) {
    if (real) return x.real < y.real;
    return has_sign ? static_cast<std::int64_t>(x.bits) < static_cast<std::int64_t>(y.bits) : x.bits < y.bits;
  };
  const auto truth = [&](const Value& x) { return real ? x.real != 0 : x.bits != 0; };
  const auto logical = [&](bool value) {
    return real ? Value{.real = value ? 1.0 : 0.0} : Value{.bits = value ? 1U : 0U};
  };
  const bool boolean = c.type == ElementType::boolean;
  Value result;
  switch (c.reduction) {
    case Reduction::sum:
    case Reduction::average:
    case Reduction::premul_sum:
      result = {round(a.real + b.real), boolean ? a.bits | b.bits : a.bits + b.bits};
      break;
    case Reduction::product: result = {round(a.real * b.real), a.bits * b.bits}; break;
    case Reduction::min: result = less(b, a) ? b : a; break;
    case Reduction::max: result = less(a, b) ? b : a; break;
    case Reduction::bit_and: result.bits = a.bits & b.bits; break;
    case Reduction::bit_or: result.bits = a.bits | b.bits; break;
    case Reduction::bit_xor: result.bits = a.bits ^ b.bits; break;
    case Reduction::logical_and: result = logical(truth(a) && truth(b)); break;
    case Reduction::logical_or: result = logical(truth(a) || truth(b)); break;
    case Reduction::logical_xor: result = logical(truth(a) != truth(b)); break;
  }
  if (!real) {  // wrapped to its width
    std::byte element[8] = {};
    store(c.type, element, result);
    result = load(c.type, element);
  }
  return result;
}

Value scaled(const CallCase& c, const Value& value, double factor) {
  if (c.reduction != Reduction::premul_sum) return value;
  return {value.real * factor, value.bits * static_cast<std::uint64_t>(static_cast<std::int64_t>(factor))};
}

double factor_of(int rank) { return rank % 2 == 0 ? 2 : 3; }

// The reduction of element `index` over ranks [0, ranks).
Value reduced(const CallCase& c, int ranks, std::int64_t index) {
  const ElementType accumulator = accumulator_of(c.type, c.exact);
  const auto element = [&](int rank) {
    std::byte bytes[8] = {};
    store(c.type, bytes, value_of(c, rank, index));
    return scaled(c, load(c.type, bytes), factor_of(rank));
  };
  Value value = element(0);
  for (int rank = 1; rank < ranks; ++rank) value = combined(c, accumulator, value, element(rank));
  if (c.reduction != Reduction::average) return value;
  const bool has_sign = c.type == ElementType::i8 || c.type == ElementType::i16 ||
                        c.type == ElementType::i32 || c.type == ElementType::i64;
  value.bits = has_sign ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value.bits) / ranks)
                        : value.bits / static_cast<std::uint64_t>(ranks);
  value.real /= ranks;
  if (accumulator == ElementType::f32) value.real = static_cast<float>(value.real);
  return value;
}

std::int64_t block_of(const CallCase& c, int rank) {
  return c.ragged ? (c.count + rank * 7) * (rank % 3) / 2 : c.count;
}

// What a rank gives and what it must get; `nullopt`: its output is not written.
struct Expectation {
  std::vector<Value> input;
  std::optional<std::vector<Value>> output;
  std::vector<std::int64_t> counts;
};

Expectation expectation(const CallCase& c, int rank, int world) {
  Expectation e;
  std::vector<std::int64_t> offsets = {0};
  for (int other = 0; other < world; ++other) {
    e.counts.push_back(block_of(c, other));
    offsets.push_back(offsets.back() + e.counts.back());
  }
  const std::int64_t all = offsets.back();
  const std::int64_t begin = offsets[static_cast<std::size_t>(rank)];
  const std::int64_t own = e.counts[static_cast<std::size_t>(rank)];
  const bool is_root = rank == c.root;
  const auto fill = [&](std::int64_t count, auto element) {
    std::vector<Value> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = element(i);
    return values;
  };
  const auto mine = [&](std::int64_t i) { return value_of(c, rank, i); };
  const auto gathered = [&] {
    std::vector<Value> values;
    for (int other = 0; other < world; ++other) {
      for (std::int64_t i = 0; i < block_of(c, other); ++i) values.push_back(value_of(c, other, i));
    }
    return values;
  };
  switch (c.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
      e.input = fill(c.count, mine);
      if (c.operation == Operation::all_reduce || is_root) {
        e.output = fill(c.count, [&](std::int64_t i) { return reduced(c, world, i); });
      }
      break;
    case Operation::scan:
    case Operation::exscan: {
      const int ranks = c.operation == Operation::scan ? rank + 1 : rank;
      e.input = fill(c.count, mine);
      if (ranks > 0) e.output = fill(c.count, [&](std::int64_t i) { return reduced(c, ranks, i); });
      break;
    }
    case Operation::broadcast:
      e.input = fill(c.count, mine);
      e.output = fill(c.count, [&](std::int64_t i) { return value_of(c, c.root, i); });
      break;
    case Operation::all_gather:
    case Operation::gather:
      e.input = fill(own, mine);
      if (c.operation == Operation::all_gather || is_root) e.output = gathered();
      break;
    case Operation::reduce_scatter:
      e.input = fill(all, mine);
      e.output = fill(own, [&](std::int64_t i) { return reduced(c, world, begin + i); });
      break;
    case Operation::scatter:
      e.input = fill(all, mine);
      e.output = fill(own, [&](std::int64_t i) { return value_of(c, c.root, begin + i); });
      break;
    case Operation::all_to_all: {
      e.input = fill(c.count * world, mine);
      e.output.emplace();
      for (int other = 0; other < world; ++other) {
        for (std::int64_t i = 0; i < c.count; ++i)
          e.output->push_back(value_of(c, other, rank * c.count + i));
      }
      break;
    }
    default: break;
  }
  return e;
}

Bytes bytes_of_values(ElementType type, const std::vector<Value>& values) {
  Bytes bytes(values.size() * static_cast<std::size_t>(bytes_of(type)));
  for (std::size_t i = 0; i < values.size(); ++i)
    store(type, bytes.data() + i * static_cast<std::size_t>(bytes_of(type)), values[i]);
  return bytes;
}

}  // namespace

namespace {

struct Buffer {
  Bytes here;
  Allocation registered;
  std::span<std::byte> bytes;
};

Buffer buffer_of(Communicator& communicator, const Bytes& content, bool registered) {
  Buffer buffer;
  if (registered && !content.empty()) {
    buffer.registered = communicator.allocate(std::ssize(content)).value();
    std::ranges::copy(content, buffer.registered.data());
    buffer.bytes = buffer.registered.bytes();
  } else {
    buffer.here = content;
    buffer.bytes = buffer.here;
  }
  return buffer;
}

}  // namespace

std::string text_of(const CallCase& c) {
  return fmt::format("{} {} {} count {} root {}{}{}{}{} registered {:04b} {}", name_of(c.operation),
                     name_of(c.type), name_of(c.reduction), c.count, c.root, c.exact ? " exact" : "",
                     c.in_place ? " in place" : "", c.ragged ? " ragged" : "", c.reals ? " reals" : "",
                     c.registered, c.algorithm);
}

std::vector<CallCase> call_cases(int world) {
  std::vector<CallCase> cases;
  int number = 0;
  for (int o = 0; o < kOperationCount; ++o) {
    const auto operation = static_cast<Operation>(o);
    if (operation == Operation::send || operation == Operation::receive) continue;
    for (int t = 0; t < kElementTypeCount; ++t) {
      const auto type = static_cast<ElementType>(t);
      for (int r = 0; r < (reduces(operation) ? kReductionCount : 1); ++r) {
        const auto reduction = static_cast<Reduction>(r);
        if (!supports(reduction, type)) continue;
        for (const std::int64_t count : {0, 1, 3, 17, 1000, 70'001}) {
          if (count == 70'001 && (r > 1 || t % 3 != 0 || world > 3)) continue;
          ++number;
          CallCase c{.operation = operation, .type = type, .reduction = reduction, .count = count};
          c.root = has_root(operation) ? number % world : 0;
          c.in_place = number % 3 == 0;
          c.exact = number % 5 == 0 && reduces(operation);
          const bool blocks = operation == Operation::all_gather || operation == Operation::reduce_scatter ||
                              operation == Operation::gather || operation == Operation::scatter;
          c.ragged = blocks && number % 4 == 0;
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

std::optional<std::string> run_case(Communicator& communicator, const CallCase& c) {
  const auto made = make_case(communicator, c);
  if (made) return *made;
  return fmt::format("rank {} of {}: {}: {}", communicator.rank(), communicator.world(), text_of(c),
                     made.error().message);
}

Result<std::optional<std::string>> make_case(Communicator& communicator, const CallCase& c) {
  const int rank = communicator.rank();
  const int world = communicator.world();
  const Expectation e = expectation(c, rank, world);
  const Bytes given = bytes_of_values(c.type, e.input);
  const unsigned registered = c.registered >> (rank % 2 * 2);
  const Buffer input_buffer = buffer_of(communicator, given, (registered & 1) != 0);
  const std::span<std::byte> input = input_buffer.bytes;
  const std::size_t outputs = e.output ? e.output->size() : e.input.size();
  const std::size_t element = static_cast<std::size_t>(bytes_of(c.type));
  const Bytes empty(outputs * element + 64, std::byte{0xa5});  // 64 bytes behind it must stay
  const Buffer output_buffer = buffer_of(communicator, empty, (registered & 2) != 0);
  const std::span<std::byte> output = output_buffer.bytes;
  Call call{.operation = c.operation,
            .input = input.data(),
            .output = output.data(),
            .count = c.count,
            .type = c.type,
            .reduction = c.reduction,
            .factor = factor_of(rank),
            .root = c.root,
            .exact = c.exact,
            .algorithm = c.algorithm};
  if (c.ragged) call.counts = e.counts;
  std::size_t begin = 0;
  for (int other = 0; other < rank; ++other)
    begin += static_cast<std::size_t>(e.counts[static_cast<std::size_t>(other)]) * element;
  bool in_place = c.in_place;
  switch (c.operation) {
    case Operation::all_gather:
    case Operation::gather:
      in_place = in_place && e.output.has_value();
      if (in_place) std::ranges::copy(input, output.begin() + static_cast<std::ptrdiff_t>(begin));
      if (in_place) call.input = output.data() + begin;
      break;
    case Operation::reduce_scatter:
    case Operation::scatter:
      in_place = in_place && (c.operation == Operation::reduce_scatter || rank == c.root);
      if (in_place) call.output = input.data() + begin;
      break;
    default:
      in_place = in_place && outputs == e.input.size();
      if (in_place) std::ranges::copy(input, output.begin());
      if (in_place) call.input = output.data();
  }
  TRY(communicator.run(call));
  const std::string name = fmt::format("rank {} of {}: {}: ", rank, world, text_of(c));
  if (!in_place && !std::ranges::equal(input, given)) return name + "the input was written";
  if (std::any_of(output.begin() + static_cast<std::ptrdiff_t>(outputs * element), output.end(),
                  [](std::byte byte) { return byte != std::byte{0xa5}; })) {
    return name + "written past the output";
  }
  if (!e.output) return std::nullopt;
  const Bytes expected = bytes_of_values(c.type, *e.output);
  const auto* got = static_cast<const std::byte*>(call.output);
  for (std::size_t i = 0; i < e.output->size(); ++i) {
    if (equal(c.type, got + i * element, expected.data() + i * element)) continue;
    return name + fmt::format("element {}: got {}/{:#x}, expected {}/{:#x}", i,
                              load(c.type, got + i * element).real, load(c.type, got + i * element).bits,
                              load(c.type, expected.data() + i * element).real,
                              load(c.type, expected.data() + i * element).bits);
  }
  return std::nullopt;
}

}  // namespace diji::collective
