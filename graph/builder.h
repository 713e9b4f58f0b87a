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
  ValueId maximum(ValueId a, ValueId b) { return map(Primitive::maximum, {a, b}); }
  ValueId equal(ValueId a, ValueId b) { return map(Primitive::equal, {a, b}); }
  ValueId exp(ValueId x) { return map(Primitive::exp, {x}); }
  ValueId tanh(ValueId x) { return map(Primitive::tanh, {x}); }
  ValueId sqrt(ValueId x) { return map(Primitive::sqrt, {x}); }
  /// A scalar map; operands are broadcast together first (NumPy's rule: aligned at the right, size 1
  /// stretches).
  ValueId map(Primitive primitive, std::initializer_list<ValueId> operands);
  ValueId convert(ValueId x, DType dtype);
  /// An integer tensor of shape [n] with these elements.
  ValueId dims(Shape elements, DType dtype = DType::i64);
  ValueId reshape(ValueId x, Shape shape);
  ValueId transpose(ValueId x, Ints permutation);
  /// To `shape`, aligned at the right; size-1 and missing axes stretch. No node when nothing changes.
  ValueId broadcast(ValueId x, Shape shape);
  ValueId slice(ValueId x, Shape start, Shape size, Ints step);
  ValueId concatenate(Values parts, std::int64_t axis);
  /// Drops `axes` (0 ≤ axis < rank).
  ValueId reduce(ValueId x, Reduction reduction, Ints axes);
  ValueId dot_general(ValueId a, ValueId b, const DotDims& dims);
  ValueId convolution(ValueId x, ValueId w, const ConvolutionDims& dims);
  /// One kernel: `body`'s inputs are `inputs`, in order; it has one output.
  ValueId fusion(Graph body, Values inputs);
  ValueId primitive(Primitive primitive, Values inputs, Attributes attributes);

  /// Any operator: operands and attributes are checked against the record, types inferred by decomposing on
  /// types.
  Values call(const OpDef& op, Values inputs, Attributes attributes, std::string name = "");

  /// Axis counted from the end when negative. Error: out of range, naming operator, axis and rank.
  std::int64_t axis(std::int64_t axis, std::int64_t rank);
  /// The shape to which both broadcast.
  Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view why);

 private:
  Graph& graph_;
  std::optional<Error> error_;
};

/// Operand count, dtypes and attribute names against the record.
Result<void> check_call(const Graph& graph, const OpCall& call);
/// Types and contents of a composed operator's results: its decomposition on a scratch graph.
Result<std::vector<Value>> infer_call(const Graph& graph, const OpCall& call);

}  // namespace diji
