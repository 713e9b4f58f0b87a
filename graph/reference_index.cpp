// The meaning of the primitives that work by coordinates: iota, gather, scatter, arg_reduce, prefix_scan,
// sort_indices, compact.
#include "graph/reference_index.h"

#include "base/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace diji {
namespace {

using Int = std::int64_t;

std::size_t axis_of(const ReferenceCall& call) {
  return static_cast<std::size_t>(call.attributes.get_or<Int>("axis", 0));
}

bool flag(const ReferenceCall& call, std::string_view name) {
  return call.attributes.get_or<Int>(name, 0) != 0;
}

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_same_v<T, double>) return std::isnan(value);
  return false;
}

// The order of keys: NaN above everything and equal to NaN, -0 equal to +0.
template <typename T>
bool key_less(T a, T b) {
  if (is_nan(a) || is_nan(b)) return !is_nan(a);
  return a < b;
}

Array iota(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  const std::size_t axis = axis_of(call);
  std::visit(
      [&](auto& to) {
        using T = typename std::decay_t<decltype(to)>::value_type;
        std::size_t element = 0;
        for_each_index(call.shape,
                       [&](const std::vector<Int>& at) { to[element++] = static_cast<T>(at[axis]); });
      },
      result.elements);
  return result;
}

std::unexpected<Error> out_of_range(const ReferenceCall& call, std::size_t axis, Int index) {
  return fail(ErrorCode::data, "index out of range: {} on axis {}, which has {} elements", index, axis,
              call.inputs[0]->shape[axis]);
}

Result<Array> gather(const ReferenceCall& call) {
  const auto cells = TRY(indexed_cells(call, 1));
  Array result = empty_array(call.dtype, call.shape);
  std::visit(
      [&](const auto& from) {
        auto& to = std::get<std::decay_t<decltype(from)>>(result.elements);
        for (std::size_t i = 0; i < to.size(); ++i) {
          if (cells[i] >= 0) to[i] = from[static_cast<std::size_t>(cells[i])];
        }
      },
      call.inputs[0]->elements);
  return result;
}

Result<Array> scatter(const ReferenceCall& call) {
  const auto cells = TRY(indexed_cells(call, 2));
  const Update update = *parse_update(call.attributes.get_or("kind", std::string{}));
  Array result = *call.inputs[0];
  std::visit(
      [&](auto& to) {
        using Elements = std::decay_t<decltype(to)>;
        const auto& updates = std::get<Elements>(call.inputs[1]->elements);
        for (std::size_t i = 0; i < updates.size(); ++i) {
          auto& cell = to[static_cast<std::size_t>(cells[i])];
          cell = update_cell(update, cell, updates[i]);
        }
      },
      result.elements);
  return result;
}

Array arg_reduce(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  auto& to = std::get<std::vector<Int>>(result.elements);
  const bool largest = call.attributes.get_or("kind", std::string{}) == "max", last = flag(call, "last");
  std::visit(
      [&](const auto& from) {
        std::size_t element = 0;
        for_each_line(call.inputs[0]->shape, axis_of(call), [&](Int start, Int stride, Int count) {
          const auto key = [&](Int k) { return from[static_cast<std::size_t>(start + k * stride)]; };
          const auto better = [&](auto a, auto b) {  // b wins over a
            if (is_nan(a) || is_nan(b)) return is_nan(b) && !is_nan(a);
            return largest ? a < b : b < a;
          };
          Int best = 0;
          for (Int k = 1; k < count; ++k) {
            if (better(key(best), key(k)) || (last && !better(key(k), key(best)))) best = k;
          }
          to[element++] = best;
        });
      },
      call.inputs[0]->elements);
  return result;
}

Array prefix_scan(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  const bool product = call.attributes.get_or("kind", std::string{}) == "product";
  const bool exclusive = flag(call, "exclusive"), reverse = flag(call, "reverse");
  const Update step = product ? Update::multiply : Update::add;
  std::visit(
      [&](const auto& from) {
        using T = typename std::decay_t<decltype(from)>::value_type;
        auto& to = std::get<std::vector<T>>(result.elements);
        for_each_line(call.shape, axis_of(call), [&](Int start, Int stride, Int count) {
          T sum = product ? T{1} : T{0};
          for (Int k = 0; k < count; ++k) {
            const auto at = static_cast<std::size_t>(start + (reverse ? count - 1 - k : k) * stride);
            const T before = sum;
            sum = update_cell(step, sum, from[at]);
            to[at] = exclusive ? before : sum;
          }
        });
      },
      call.inputs[0]->elements);
  return result;
}

Array sort_indices(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  auto& to = std::get<std::vector<Int>>(result.elements);
  const bool descending = flag(call, "descending");
  std::visit(
      [&](const auto& from) {
        std::vector<Int> order;
        for_each_line(call.shape, axis_of(call), [&](Int start, Int stride, Int count) {
          const auto key = [&](Int k) { return from[static_cast<std::size_t>(start + k * stride)]; };
          order.resize(static_cast<std::size_t>(count));
          std::iota(order.begin(), order.end(), Int{0});
          std::ranges::sort(order, [&](Int first, Int second) {
            const auto a = key(descending ? second : first), b = key(descending ? first : second);
            return key_less(a, b) || (!key_less(b, a) && first < second);
          });
          for (Int k = 0; k < count; ++k)
            to[static_cast<std::size_t>(start + k * stride)] = order[static_cast<std::size_t>(k)];
        });
      },
      call.inputs[0]->elements);
  return result;
}

Array compact(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  auto& to = std::get<std::vector<Int>>(result.elements);
  const auto& mask = std::get<std::vector<std::uint8_t>>(call.inputs[0]->elements);
  std::size_t count = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0) to[count++] = static_cast<Int>(i);
  }
  CHECK(count == to.size(), "the count of a compact is bound to what its mask holds");
  return result;
}

}  // namespace

Result<std::vector<std::int64_t>> indexed_cells(const ReferenceCall& call, std::size_t first) {
  const StaticShape& shape = call.inputs[0]->shape;
  const auto strides = row_major_strides(shape);
  const bool zero = call.attributes.get_or("outside", std::string{}) == "zero";
  std::vector<Int> cells(static_cast<std::size_t>(call.inputs[first]->count()), 0);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto& indices = std::get<std::vector<Int>>(call.inputs[first + axis]->elements);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const bool inside = indices[i] >= 0 && indices[i] < shape[axis];
      if (!inside && !zero) return out_of_range(call, axis, indices[i]);
      if (cells[i] >= 0) cells[i] = inside ? cells[i] + indices[i] * strides[axis] : -1;
    }
  }
  return cells;
}

Update update_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return Update::add;
    case Reduction::product: return Update::multiply;
    case Reduction::min: return Update::minimum;
    case Reduction::max: return Update::maximum;
  }
  check_failed("reduction", "a Reduction outside its enumeration");
}

Result<Array> reference_by_index(const ReferenceCall& call) {
  switch (call.primitive) {
    case Primitive::iota: return iota(call);
    case Primitive::gather: return gather(call);
    case Primitive::scatter: return scatter(call);
    case Primitive::arg_reduce: return arg_reduce(call);
    case Primitive::prefix_scan: return prefix_scan(call);
    case Primitive::sort_indices: return sort_indices(call);
    case Primitive::compact: return compact(call);
    default: check_failed("primitive", "one that works by coordinates");
  }
}

}  // namespace diji
