// One operator on given operands: what inference says, what the interpreter computes, what users read when it
// is wrong.
#pragma once

#include "graph/builder.h"
#include "graph/interpreter.h"
#include "ops/catalog.h"
#include "ops/samples.h"

#include <string>
#include <vector>

namespace diji::test {

/// `call("slice").input(type).constant(ints({0}))…`: the operator is called when type(), error() or run()
/// asks.
class Call {
 public:
  explicit Call(std::string_view op, Attributes attributes = {})
      : op_(find_op(op)), attributes_(std::move(attributes)) {}

  Call& input(Type type) {
    values_.push_back(graph_.add_input(fmt::format("x{}", values_.size()), std::move(type)));
    return *this;
  }
  Call& input(DType dtype, Shape shape) { return input(Type{dtype, std::move(shape)}); }
  Call& constant(HostTensor tensor) {
    values_.push_back(graph_.add_constant(std::move(tensor)));
    return *this;
  }
  Call& absent() {
    values_.push_back(ValueId::none);
    return *this;
  }

  /// "f32[N, 4]", or the error's sentence.
  std::string type() {
    const auto id = call();
    return id ? text_of(graph_.type(*id)) : id.error().message;
  }
  Result<HostTensor> run(const std::vector<HostTensor>& inputs) {
    graph_.add_output("y", TRY(call()));
    auto outputs = TRY(interpret(graph_, inputs, Arithmetic::typed));
    return std::move(outputs[0]);
  }
  const Graph& graph() const { return graph_; }

 private:
  Result<ValueId> call() {
    CHECK(op_ != nullptr, "an operator of the catalogue");
    Builder builder(graph_);
    const Values outputs = builder.call(*op_, values_, attributes_);
    TRY(builder.status());
    return outputs[0];
  }
  const OpDef* op_;
  Attributes attributes_;
  Graph graph_;
  Values values_;
};

inline const Dim N = Dim::symbol("N");

}  // namespace diji::test
