// Builder: appends nodes with inferred types. The first error sticks, so that a decomposition reads like its
// formula.
#pragma once

#include "graph/graph.h"
#include "graph/primitives.h"

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace diji {

/// The name of a loop body's output that says whether to go on.
inline constexpr std::string_view kLoopCondition = "condition";

/// After an error every further call returns ValueId::none and changes nothing; ask status() at the end.
/// Shape arguments may be symbolic throughout.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  bool ok() const { return !error_.has_value(); }
  Result<void> status() const;
  /// Records the error, unless there is one already. Returns ValueId::none.
  ValueId fail_with(Error error);
  template <typename... Args>
  ValueId fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
    return fail_with(diji::fail(code, format, std::forward<Args>(args)...).error());
  }

  /// fail(unsupported) where contents that are not known yet decide ranks or axes.
  template <typename... Args>
  ValueId undecided(fmt::format_string<Args...> format, Args&&... args) {
    auto error = diji::fail(ErrorCode::unsupported, format, std::forward<Args>(args)...);
    error.error().contents_decide = true;
    return fail_with(std::move(error.error()));
  }

  /// The type of a value; after an error some valid type, so that formulas need not check.
  const Type& type(ValueId id) const;
  const Shape& shape(ValueId id) const { return type(id).shape; }
  DType dtype(ValueId id) const { return type(id).dtype; }
  std::int64_t rank(ValueId id) const { return std::ssize(shape(id)); }
  std::optional<Shape> contents(ValueId id) const;
  /// Contents that are all known numbers now.
  std::optional<Ints> constant_ints(ValueId id) const;

  ValueId constant(HostTensor tensor);
  /// A scalar of this dtype (rounded to it).
  ValueId scalar(DType dtype, double value);

  ValueId add(ValueId a, ValueId b) { return map(Primitive::add, {a, b}); }
  ValueId subtract(ValueId a, ValueId b) { return map(Primitive::subtract, {a, b}); }
  ValueId multiply(ValueId a, ValueId b) { return map(Primitive::multiply, {a, b}); }
  ValueId divide(ValueId a, ValueId b) { return map(Primitive::divide, {a, b}); }
  ValueId minimum(ValueId a, ValueId b) { return map(Primitive::minimum, {a, b}); }
  ValueId maximum(ValueId a, ValueId b) { return map(Primitive::maximum, {a, b}); }
  ValueId equal(ValueId a, ValueId b) { return map(Primitive::equal, {a, b}); }
  ValueId less(ValueId a, ValueId b) { return map(Primitive::less, {a, b}); }
  /// a < b or a = b: false where one is NaN.
  ValueId less_equal(ValueId a, ValueId b) { return logical_or(less(a, b), equal(a, b)); }
  ValueId logical_and(ValueId a, ValueId b) { return map(Primitive::bit_and, {a, b}); }
  ValueId logical_or(ValueId a, ValueId b) { return map(Primitive::bit_or, {a, b}); }
  ValueId logical_not(ValueId a) { return map(Primitive::equal, {a, scalar(DType::boolean, 0)}); }
  /// `condition` is bool; the other two have one dtype.
  ValueId select(ValueId condition, ValueId then, ValueId otherwise) {
    return map(Primitive::select, {condition, then, otherwise});
  }
  ValueId absolute(ValueId x) { return map(Primitive::absolute, {x}); }
  ValueId log(ValueId x) { return map(Primitive::log, {x}); }
  ValueId exp(ValueId x) { return map(Primitive::exp, {x}); }
  ValueId tanh(ValueId x) { return map(Primitive::tanh, {x}); }
  ValueId sqrt(ValueId x) { return map(Primitive::sqrt, {x}); }
  /// A scalar map; operands are broadcast together first (NumPy's rule: aligned at the right, size 1
  /// stretches).
  ValueId map(Primitive primitive, std::initializer_list<ValueId> operands);
  ValueId convert(ValueId x, DType dtype);
  /// An integer tensor of shape [n] with these elements.
  ValueId dims(Shape elements, DType dtype = DType::i64);
  /// The coordinate along `axis`, of this shape.
  ValueId iota(Shape shape, std::int64_t axis, DType dtype = DType::i64);
  ValueId reshape(ValueId x, Shape shape);
  ValueId transpose(ValueId x, Ints permutation);
  /// To `shape`, aligned at the right; size-1 and missing axes stretch, and where the graph `stretches` those
  /// whose size is 1 in a run. No node when nothing changes.
  ValueId broadcast(ValueId x, Shape shape);
  ValueId slice(ValueId x, Shape start, Shape size, Ints step);
  /// x[indices[0][p], indices[1][p], ...] for every coordinate p of the index tensors, which are broadcast
  /// together; one index an axis of x. Negative indices are out of range here. Where one is out of range, an
  /// error, or with `zero_outside` 0.
  ValueId gather(ValueId x, Values indices, bool zero_outside = false);
  /// x[..., indices, ...]: axis `axis` of x is replaced by the axes of `indices`; negative indices count from
  /// the end (NumPy's take).
  ValueId take(ValueId x, ValueId indices, std::int64_t axis);
  /// x with the cells at the index tensors' coordinates updated, in row-major order of the updates.
  ValueId scatter(ValueId x, ValueId updates, Values indices, Update update);
  ValueId concatenate(Values parts, std::int64_t axis);
  /// Drops `axes` (0 ≤ axis < rank).
  ValueId reduce(ValueId x, Reduction reduction, Ints axes);
  /// Reduced axes stay with size 1.
  ValueId reduce_keeping(ValueId x, Reduction reduction, Ints axes);
  /// i64 coordinate of the largest (max) or smallest (min) element along the axis, which goes away. Of equal
  /// ones the first or the last; the first (last) NaN wins. The axis must not be empty.
  ValueId arg_reduce(ValueId x, Reduction reduction, std::int64_t axis, bool last = false);
  /// Running sum or product along the axis; `exclusive` leaves the own element out.
  ValueId prefix_scan(ValueId x, Reduction reduction, std::int64_t axis, bool exclusive, bool reverse);
  /// i64 coordinates that sort along the axis; equal keys keep their order (also descending), NaN is above
  /// everything.
  ValueId sort_indices(ValueId x, std::int64_t axis, bool descending);
  /// Row-major positions of the true elements, i64[count]; `count` is a fresh symbol.
  ValueId compact(ValueId mask, const Dim& count);
  /// The same elements, known as sizes from here on: one symbol each. x is i32 or i64 of known size.
  ValueId observe(ValueId x, Shape symbols);
  /// Of all ranks of the channel's group; `kind` folds. See prim.all_reduce and its neighbours: blocks lie
  /// along axis 0.
  ValueId all_reduce(ValueId x, Reduction kind, const GroupChannel& channel);
  ValueId reduce_scatter(ValueId x, Reduction kind, const GroupChannel& channel);
  ValueId all_gather(ValueId x, const GroupChannel& channel);
  ValueId all_to_all(ValueId x, const GroupChannel& channel);
  ValueId collective_broadcast(ValueId x, std::int64_t root, const GroupChannel& channel);
  /// One value of a graph, with contents known as expressions: as it is, or observed.
  ValueId known_sizes(ValueId x, std::string_view operand);
  /// `then` and `otherwise` take `captures`; condition is bool with one element.
  Values conditional(ValueId condition, Graph then, Graph otherwise, Values captures);
  /// See prim.loop. `limit` and `condition` may be none. A body whose first output is called kLoopCondition
  /// computes whether to go on.
  Values loop(ValueId limit, ValueId condition, const Values& carried, const Values& scanned,
              const Values& captures, Graph body);
  /// `result` is a's dtype unless given: 8-bit integers (also mixed) sum into i32.
  ValueId dot_general(ValueId a, ValueId b, const DotDims& dims, std::optional<DType> result = {});
  /// `result`: dtype of the sums, if not x's.
  ValueId convolution(ValueId x, ValueId w, const ConvolutionDims& dims, std::optional<DType> result = {});
  /// One kernel: `body`'s inputs are `inputs`, in order; it has one output.
  ValueId fusion(Graph body, Values inputs);
  ValueId primitive(Primitive primitive, Values inputs, Attributes attributes);
  /// A conditional or loop as it stands; types are inferred.
  Values structured(Node node);

  /// Any operator: operands and attributes are checked against the record, types inferred by decomposing on
  /// types.
  Values call(const OpDef& op, Values inputs, Attributes attributes, std::string name = "");

  /// Axis counted from the end when negative. Error: out of range, naming operator, axis and rank.
  std::int64_t axis(std::int64_t axis, std::int64_t rank);
  /// The shape to which both broadcast.
  Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view why);

 private:
  Values custom(const OpDef& op, Values inputs, Attributes attributes, std::string name);
  ValueId stretched(ValueId x, const Shape& to);
  ValueId dot_of_merged_axes(ValueId a, ValueId b, const DotDims& dims, std::optional<DType> result);
  Graph& graph_;
  std::optional<Error> error_;
};

/// Operand count, dtypes and attribute names against the record.
Result<void> check_call(const Graph& graph, const OpCall& call);
/// Types and contents of a composed operator's results: its decomposition on a scratch graph.
Result<std::vector<Value>> infer_call(const Graph& graph, const OpCall& call);

}  // namespace diji
