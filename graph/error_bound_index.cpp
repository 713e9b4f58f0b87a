// The error rules of the primitives that work by coordinates, and of products.
#include "base/check.h"
#include "graph/error_rules.h"
#include "graph/reference_index.h"

#include <algorithm>

namespace diji {
namespace {

using Bound = std::vector<double>;
using InputBounds = std::span<const Bound* const>;

Bound unknown(std::size_t count) { return Bound(count, kInfinity); }

// Integers with an error below 1 have none.
bool exact_indices(InputBounds bounds, std::size_t first) {
  return std::ranges::all_of(bounds.subspan(first), [](const Bound* bound) {
    return std::ranges::all_of(*bound, [](double error) { return error < 1; });
  });
}

// 16-bit floats round to f32 first.
double storage_roundoff(DType dtype) {
  if (!is_floating(dtype)) return 0;
  return unit_roundoff(dtype) + (is_narrow(dtype) ? unit_roundoff(DType::f32) : 0);
}

Bound iota_bound(const ReferenceCall& call, const Array& result) {
  Bound out;
  for (const double value : as_doubles(result)) out.push_back(storage_roundoff(call.dtype) * value);
  return out;
}

Bound gather_bound(const ReferenceCall& call, InputBounds bounds, std::size_t count) {
  if (!exact_indices(bounds, 1)) return unknown(count);
  const auto cells = indexed_cells(call, 1);
  CHECK(cells.has_value(), "indices that the reference went through");
  Bound out(count, 0.0);
  for (std::size_t i = 0; i < count; ++i) {
    if ((*cells)[i] >= 0) out[i] = (*bounds[0])[static_cast<std::size_t>((*cells)[i])];
  }
  return out;
}

struct Cell {
  double value, error;
};

// An update computed and stored in the dtype, with an operand that may have left its range bounding nothing.
double update_error(Update update, Cell cell, Cell operand, double result, DType dtype) {
  if (update == Update::set) return operand.error;
  for (Cell* side : {&cell, &operand}) {
    const bool may_leave =
        std::isfinite(side->value) && std::fabs(side->value) + side->error > largest(dtype);
    if (may_leave && (is_floating(dtype) || side->error > 0)) side->error = kInfinity;
  }
  const bool exact = cell.error == 0 && operand.error == 0;
  if (std::isnan(result)) {
    const bool certain = exact || (std::isnan(cell.value) && cell.error == 0) ||
                         (std::isnan(operand.value) && operand.error == 0);
    return certain ? 0 : kInfinity;
  }
  if (update == Update::minimum || update == Update::maximum) return std::max(cell.error, operand.error);
  const double propagated = update == Update::add
                                ? cell.error + operand.error
                                : times(cell.value, operand.error) + times(operand.value, cell.error) +
                                      times(cell.error, operand.error);
  if (!is_floating(dtype)) return propagated;
  return with_rounding(propagated, result, storage_roundoff(dtype)) + subnormal_step(dtype);
}

Bound scatter_bound(const ReferenceCall& call, InputBounds bounds, std::size_t count) {
  if (!exact_indices(bounds, 2)) return unknown(count);
  const auto cells = indexed_cells(call, 2);
  CHECK(cells.has_value(), "indices that the reference went through");
  const Update update = *parse_update(call.attributes.get_or("kind", std::string{}));
  const auto updates = as_doubles(*call.inputs[1]);
  Bound values = as_doubles(*call.inputs[0]), out = *bounds[0];
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const auto at = static_cast<std::size_t>((*cells)[i]);
    const double result = update_cell(update, values[at], updates[i]);
    out[at] = update_error(update, {values[at], out[at]}, {updates[i], (*bounds[1])[i]}, result, call.dtype);
    values[at] = result;
  }
  return out;
}

// What a key may be; a NaN that is there for certain is above everything.
struct Range {
  double low, high;
};
Range key_range(double value, double error) {
  if (std::isnan(value)) return {error == 0 ? kInfinity : -kInfinity, kInfinity};
  return {std::isinf(error) ? -kInfinity : value - error, std::isinf(error) ? kInfinity : value + error};
}

// How far away the farthest coordinate lies that may win as well.
Bound arg_reduce_bound(const ReferenceCall& call, const Bound& input, const Array& result) {
  const auto keys = as_doubles(*call.inputs[0]);
  const bool largest_wins = call.attributes.get_or("kind", std::string{}) == "max";
  const auto& winners = std::get<std::vector<std::int64_t>>(result.elements);
  Bound out;
  for_each_line(call.inputs[0]->shape,
                static_cast<std::size_t>(call.attributes.get_or<std::int64_t>("axis", 0)),
                [&](std::int64_t start, std::int64_t stride, std::int64_t count) {
                  const std::int64_t winner = winners[out.size()];
                  const auto range = [&](std::int64_t k) {
                    const auto at = static_cast<std::size_t>(start + k * stride);
                    return key_range(keys[at], input[at]);
                  };
                  const auto error = [&](std::int64_t k) {
                    return input[static_cast<std::size_t>(start + k * stride)];
                  };
                  const Range best = range(winner);
                  double farthest = 0;
                  for (std::int64_t k = 0; k < count; ++k) {
                    if (error(k) == 0 && error(winner) == 0) continue;  // decided
                    const Range other = range(k);
                    const bool loses = largest_wins ? other.high < best.low : other.low > best.high;
                    if (!loses) farthest = std::max(farthest, static_cast<double>(std::abs(k - winner)));
                  }
                  out.push_back(farthest);
                });
  return out;
}

// Sorted positions whose keys may change places form runs; within one, any of its coordinates may stand
// anywhere.
void sort_line_bound(std::span<const std::int64_t> order, std::span<const Range> ranges,
                     std::span<double> out) {
  const std::size_t count = order.size();
  std::vector<double> lowest_behind(count + 1, kInfinity);
  for (std::size_t k = count; k-- > 0;) lowest_behind[k] = std::min(lowest_behind[k + 1], ranges[k].low);
  for (std::size_t first = 0, end = 0; first < count; first = end) {
    double highest = ranges[first].high;
    bool exact = ranges[first].low == highest;
    for (end = first + 1; end < count && lowest_behind[end] <= highest; ++end) {
      highest = std::max(highest, ranges[end].high);
      exact = exact && ranges[end].low == ranges[end].high;
    }
    const auto [smallest, greatest] = std::ranges::minmax(order.subspan(first, end - first));
    const double apart = exact ? 0 : static_cast<double>(greatest - smallest);
    std::ranges::fill(out.subspan(first, end - first), apart);
  }
}

Bound sort_bound(const ReferenceCall& call, const Bound& input, const Array& result) {
  const auto keys = as_doubles(*call.inputs[0]);
  const bool descending = call.attributes.get_or<std::int64_t>("descending", 0) != 0;
  const auto& sorted = std::get<std::vector<std::int64_t>>(result.elements);
  Bound out(sorted.size());
  for_each_line(call.shape, static_cast<std::size_t>(call.attributes.get_or<std::int64_t>("axis", 0)),
                [&](std::int64_t start, std::int64_t stride, std::int64_t count) {
                  std::vector<std::int64_t> order;
                  std::vector<Range> ranges;
                  for (std::int64_t k = 0; k < count; ++k) {
                    const std::int64_t place = descending ? count - 1 - k : k;
                    order.push_back(sorted[static_cast<std::size_t>(start + place * stride)]);
                    const auto at = static_cast<std::size_t>(start + order.back() * stride);
                    ranges.push_back(key_range(keys[at], input[at]));
                  }
                  Bound line(order.size());
                  sort_line_bound(order, ranges, line);
                  for (std::int64_t k = 0; k < count; ++k) {
                    const std::int64_t place = descending ? count - 1 - k : k;
                    out[static_cast<std::size_t>(start + place * stride)] = line[static_cast<std::size_t>(k)];
                  }
                });
  return out;
}

// A running fold of terms with errors, in f64.
class Running {
 public:
  Running(bool product, DType dtype) : product_(product), dtype_(dtype) {}
  void add(double value, double error) {
    if (std::isnan(value) && error == 0) not_a_number_ = true;
    depth_ += 1;
    const double size = std::fabs(value) + error;
    errors_ += error;
    sizes_ += size;
    factors_ *= std::fabs(value);
    largest_ *= size;
    reach_ *= std::max(size, 1.0);
  }
  double bound() const {
    if (not_a_number_) return 0;
    const double u = unit_roundoff(DType::f64);
    if (!product_) return sum_error(errors_, sizes_, depth_, is_floating(dtype_) ? u : 0, dtype_);
    // No partial product, in whatever order, is beyond `reach`; what one loses below the normal numbers grows
    // at most by as much again. Four roundings a factor: the kernel's, the oracle's and two here.
    if (!(reach_ <= largest(DType::f64))) return kInfinity;
    return largest_ - factors_ + times(gamma(4 * depth_, u), largest_) +
           depth_ * subnormal_step(DType::f64) * reach_;
  }

 private:
  bool product_;
  DType dtype_;
  bool not_a_number_ = false;
  double depth_ = 0, errors_ = 0, sizes_ = 0, factors_ = 1, largest_ = 1, reach_ = 1;
};

Bound scan_bound(const ReferenceCall& call, const Bound& input, const Array& result) {
  const auto values = as_doubles(*call.inputs[0]), results = as_doubles(result);
  const bool product = call.attributes.get_or("kind", std::string{}) == "product";
  const bool exclusive = call.attributes.get_or<std::int64_t>("exclusive", 0) != 0;
  const bool reverse = call.attributes.get_or<std::int64_t>("reverse", 0) != 0;
  const double u = call.dtype == DType::f64 ? 0 : storage_roundoff(call.dtype);
  Bound out(values.size());
  for_each_line(call.shape, static_cast<std::size_t>(call.attributes.get_or<std::int64_t>("axis", 0)),
                [&](std::int64_t start, std::int64_t stride, std::int64_t count) {
                  Running running(product, call.dtype);
                  for (std::int64_t k = 0; k < count; ++k) {
                    const auto at = static_cast<std::size_t>(start + (reverse ? count - 1 - k : k) * stride);
                    const double before = running.bound();
                    running.add(values[at], input[at]);
                    out[at] = exclusive ? before : running.bound();
                    if (std::isfinite(results[at])) out[at] += u * (std::fabs(results[at]) + out[at]);
                  }
                });
  return out;
}

}  // namespace

std::vector<double> product_bound(const ReferenceCall& call, const std::vector<double>& input,
                                  std::size_t count) {
  const auto targets = reduce_targets(call);
  const auto values = as_doubles(*call.inputs[0]);
  std::vector<Running> running(count, Running(true, call.dtype));
  for (std::size_t i = 0; i < values.size(); ++i)
    running[static_cast<std::size_t>(targets[i])].add(values[i], input[i]);
  Bound out;
  for (const Running& product : running) out.push_back(product.bound());
  return out;
}

std::vector<double> bound_by_index(const ReferenceCall& call, InputBounds bounds, const Array& result) {
  const auto count = static_cast<std::size_t>(result.count());
  switch (call.primitive) {
    case Primitive::iota: return iota_bound(call, result);
    case Primitive::gather: return gather_bound(call, bounds, count);
    case Primitive::scatter: return scatter_bound(call, bounds, count);
    case Primitive::arg_reduce: return arg_reduce_bound(call, *bounds[0], result);
    case Primitive::prefix_scan: return scan_bound(call, *bounds[0], result);
    case Primitive::sort_indices: return sort_bound(call, *bounds[0], result);
    case Primitive::compact: return unknown(count);  // of an uncertain mask: not even the size is certain
    default: check_failed("primitive", "one that works by coordinates");
  }
}

}  // namespace diji
