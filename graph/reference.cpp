// The meaning of the primitives: templates over double, int64, uint64 and bool.
#include "graph/reference.h"

#include "base/check.h"
#include "graph/map_reference.h"
#include "graph/reference_index.h"

#include <algorithm>
#include <limits>

namespace diji {
namespace {

using Int = std::int64_t;

Result<Array> move_elements(const ReferenceCall& call) {
  const auto sources = TRY(source_indices(call));
  Array result = empty_array(call.dtype, call.shape);
  std::visit(
      [&](const auto& from) {
        auto& to = std::get<std::decay_t<decltype(from)>>(result.elements);
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[static_cast<std::size_t>(sources[i])];
      },
      call.inputs[0]->elements);
  return result;
}

Array concatenate(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  const auto axis = static_cast<std::size_t>(call.attributes.get_or<Int>("axis", 0));
  const auto strides = row_major_strides(call.shape);
  Int base = 0;
  for (const Array* part : call.inputs) {
    std::visit(
        [&](const auto& from) {
          auto& to = std::get<std::decay_t<decltype(from)>>(result.elements);
          std::size_t element = 0;
          for_each_index(part->shape, [&](const std::vector<Int>& at) {
            Int target = base * strides[axis];
            for (std::size_t i = 0; i < at.size(); ++i) target += at[i] * strides[i];
            to[static_cast<std::size_t>(target)] = from[element++];
          });
        },
        part->elements);
    base += part->shape[axis];
  }
  return result;
}

Array reduce(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  const Reduction reduction = *parse_reduction(call.attributes.get_or("kind", std::string{}));
  const auto targets = reduce_targets(call);
  std::visit(
      [&](const auto& from) {
        using T = typename std::decay_t<decltype(from)>::value_type;
        auto& to = std::get<std::vector<T>>(result.elements);
        std::ranges::fill(to, reduction_start<T>(reduction, call.dtype));
        for (std::size_t i = 0; i < from.size(); ++i) {
          T& cell = to[static_cast<std::size_t>(targets[i])];
          cell = update_cell(update_of(reduction), cell, from[i]);
        }
      },
      call.inputs[0]->elements);
  return result;
}

// Products and sums: double for floats, modulo 2^64 for integers of any sign.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, std::uint64_t>;

// visit(elements of a, elements of b, elements of the result), where all are of one class of floats or
// integers.
template <typename Visit>
void visit_product(const ReferenceCall& call, Array& result, Visit visit) {
  std::visit(
      [&](const auto& a, const auto& b, auto& to) {
        using A = typename std::decay_t<decltype(a)>::value_type;
        using B = typename std::decay_t<decltype(b)>::value_type;
        using T = typename std::decay_t<decltype(to)>::value_type;
        if constexpr (std::is_same_v<Sum<A>, Sum<B>> && std::is_same_v<Sum<A>, Sum<T>>) visit(a, b, to);
      },
      call.inputs[0]->elements, call.inputs[1]->elements, result.elements);
}

Array dot_general(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  const DotWalk walk = dot_walk(call);
  visit_product(call, result, [&](const auto& a, const auto& b, auto& to) {
    using T = typename std::decay_t<decltype(to)>::value_type;
    using U = Sum<T>;
    for (std::size_t i = 0; i < to.size(); ++i) {
      U sum = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(walk.depth); ++k) {
        sum += static_cast<U>(a[static_cast<std::size_t>(walk.lhs_start[i] + walk.lhs_steps[k])]) *
               static_cast<U>(b[static_cast<std::size_t>(walk.rhs_start[i] + walk.rhs_steps[k])]);
      }
      to[i] = static_cast<T>(sum);
    }
  });
  return result;
}

Array convolution(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  visit_product(call, result, [&](const auto& x, const auto& w, auto& to) {
    using T = typename std::decay_t<decltype(to)>::value_type;
    using U = Sum<T>;
    const Int outside = convolution_dims(call.attributes).padding_value;
    for_each_product(call, [&](Int element, Int source, Int weight) {
      if (source < 0 && outside == 0) return;  // not 0 · infinity
      const U value =
          source < 0 ? static_cast<U>(outside) : static_cast<U>(x[static_cast<std::size_t>(source)]);
      T& sum = to[static_cast<std::size_t>(element)];
      sum = static_cast<T>(static_cast<U>(sum) + value * static_cast<U>(w[static_cast<std::size_t>(weight)]));
    });
  });
  return result;
}

Result<Array> dims(const ReferenceCall& call) {
  Array result = empty_array(call.dtype, call.shape);
  const auto elements = TRY(evaluate(call.attributes.get_or("elements", Shape{}), call.bindings));
  std::get<std::vector<Int>>(result.elements) = elements;
  return result;
}

}  // namespace

Array empty_array(DType dtype, const StaticShape& shape) {
  Array array{.dtype = dtype, .shape = shape, .elements = {}};
  visit_dtype(dtype, [&](auto tag) {
    using Element = Wide<typename decltype(tag)::type>;
    array.elements = std::vector<Element>(static_cast<std::size_t>(*checked_product(shape)));
  });
  return array;
}

std::int64_t Array::count() const { return *checked_product(shape); }

Array array_of(const HostTensor& tensor) {
  Array array = empty_array(tensor.dtype(), tensor.shape());
  visit_dtype(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto& to = std::get<std::vector<Wide<T>>>(array.elements);
    std::ranges::transform(tensor.values<T>(), to.begin(),
                           [](T value) { return static_cast<Wide<T>>(value); });
  });
  return array;
}

Result<HostTensor> tensor_of(const Array& array) {
  HostTensor tensor = TRY(HostTensor::allocate(array.dtype, array.shape));
  visit_dtype(array.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto& from = std::get<std::vector<Wide<T>>>(array.elements);
    std::ranges::transform(from, tensor.mutable_values<T>().begin(),
                           [](auto value) { return static_cast<T>(value); });
  });
  return tensor;
}

void round_to_dtype(Array& array) {
  visit_dtype(array.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (auto& element : std::get<std::vector<Wide<T>>>(array.elements)) {
      element = static_cast<Wide<T>>(static_cast<T>(element));
    }
  });
}

std::vector<std::int64_t> row_major_strides(const StaticShape& shape) {
  std::vector<Int> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Result<std::vector<std::int64_t>> source_indices(const ReferenceCall& call) {
  const StaticShape& from = call.inputs[0]->shape;
  const auto from_strides = row_major_strides(from);
  std::vector<Int> strides = from_strides;  // by result axis
  Int start = 0;
  switch (call.primitive) {
    case Primitive::reshape: strides = row_major_strides(call.shape); break;
    case Primitive::transpose: {
      const auto permutation = call.attributes.get_or("permutation", Ints{});
      for (std::size_t i = 0; i < strides.size(); ++i)
        strides[i] = from_strides[static_cast<std::size_t>(permutation[i])];
      break;
    }
    case Primitive::broadcast:
      for (std::size_t i = 0; i < strides.size(); ++i) strides[i] = from[i] == 1 ? 0 : from_strides[i];
      break;
    case Primitive::slice: {
      const auto begin = TRY(evaluate(call.attributes.get_or("start", Shape{}), call.bindings));
      const auto step = call.attributes.get_or("step", Ints{});
      for (std::size_t i = 0; i < strides.size(); ++i) {
        start += begin[i] * from_strides[i];
        strides[i] = from_strides[i] * step[i];
      }
      break;
    }
    default: check_failed("primitive", "a view");
  }
  std::vector<Int> sources;
  sources.reserve(static_cast<std::size_t>(*checked_product(call.shape)));
  for_each_index(call.shape, [&](const std::vector<Int>& at) {
    Int source = start;
    for (std::size_t i = 0; i < at.size(); ++i) source += at[i] * strides[i];
    sources.push_back(source);
  });
  return sources;
}

DotWalk dot_walk(const ReferenceCall& call) {
  const DotDims dims = dot_dims(call.attributes);
  const StaticShape &a = call.inputs[0]->shape, &b = call.inputs[1]->shape;
  const auto a_strides = row_major_strides(a), b_strides = row_major_strides(b);
  DotWalk walk;
  StaticShape contracted;
  for (const Int axis : dims.lhs_contracting) contracted.push_back(a[static_cast<std::size_t>(axis)]);
  walk.depth = *checked_product(contracted);
  for_each_index(contracted, [&](const std::vector<Int>& at) {
    Int lhs = 0, rhs = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      lhs += at[i] * a_strides[static_cast<std::size_t>(dims.lhs_contracting[i])];
      rhs += at[i] * b_strides[static_cast<std::size_t>(dims.rhs_contracting[i])];
    }
    walk.lhs_steps.push_back(lhs);
    walk.rhs_steps.push_back(rhs);
  });
  const Ints lhs_free = dims.lhs_free(std::ssize(a)), rhs_free = dims.rhs_free(std::ssize(b));
  for_each_index(call.shape, [&](const std::vector<Int>& at) {
    Int lhs = 0, rhs = 0;
    std::size_t i = 0;
    for (std::size_t j = 0; j < dims.lhs_batch.size(); ++j, ++i) {
      lhs += at[i] * a_strides[static_cast<std::size_t>(dims.lhs_batch[j])];
      rhs += at[i] * b_strides[static_cast<std::size_t>(dims.rhs_batch[j])];
    }
    for (const Int axis : lhs_free) lhs += at[i++] * a_strides[static_cast<std::size_t>(axis)];
    for (const Int axis : rhs_free) rhs += at[i++] * b_strides[static_cast<std::size_t>(axis)];
    walk.lhs_start.push_back(lhs);
    walk.rhs_start.push_back(rhs);
  });
  return walk;
}

std::vector<std::int64_t> reduce_targets(const ReferenceCall& call) {
  const auto axes = call.attributes.get_or("axes", Ints{});
  const auto strides = row_major_strides(call.shape);
  const StaticShape& from = call.inputs[0]->shape;
  std::vector<Int> by_axis;  // stride in the result of each input axis
  std::size_t kept = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool folded = std::ranges::find(axes, static_cast<Int>(i)) != axes.end();
    by_axis.push_back(folded ? 0 : strides[kept++]);
  }
  std::vector<Int> targets;
  for_each_index(from, [&](const std::vector<Int>& at) {
    Int target = 0;
    for (std::size_t i = 0; i < at.size(); ++i) target += at[i] * by_axis[i];
    targets.push_back(target);
  });
  return targets;
}

Result<Array> reference(const ReferenceCall& call) {
  Array result = TRY([&]() -> Result<Array> {
    switch (call.primitive) {
      case Primitive::dims: return dims(call);
      case Primitive::reshape:
      case Primitive::transpose:
      case Primitive::broadcast:
      case Primitive::slice: return move_elements(call);
      case Primitive::concatenate: return concatenate(call);
      case Primitive::iota:
      case Primitive::gather:
      case Primitive::scatter:
      case Primitive::arg_reduce:
      case Primitive::prefix_scan:
      case Primitive::sort_indices:
      case Primitive::compact: return reference_by_index(call);
      case Primitive::reduce: return reduce(call);
      case Primitive::dot_general: return dot_general(call);
      case Primitive::convolution: return convolution(call);
      case Primitive::fusion: check_failed("fusion", "the interpreter runs its body");
      default: return map_reference(call);
    }
  }());
  if (!is_floating(result.dtype)) round_to_dtype(result);
  return result;
}

}  // namespace diji
