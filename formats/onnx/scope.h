// What names stand for while a graph is imported: tensors, and the lists and optionals that exist at import
// only.
#pragma once

#include "formats/onnx/coverage.h"
#include "formats/onnx/proto.h"
#include "graph/builder.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace diji::onnx {

struct Imported;

/// `id` none: an absent operand.
struct Tensor {
  ValueId id = ValueId::none;
  std::int32_t packed = 0;  ///< the data type of a constant that was widened (packed_type)
};
/// A list of known length.
struct Sequence {
  DType dtype = DType::f32;
  std::vector<Tensor> items;
};
struct Optional {
  std::shared_ptr<const Imported> content;  ///< null: it has none
};
struct Imported {
  std::variant<Tensor, Sequence, Optional> value;
};
using ImportedList = std::vector<Imported>;

/// All tensors within, in order.
std::vector<Tensor*> tensors_of(Imported& value);

/// Deepest chain of function calls and graphs inside graphs: each level takes stack.
inline constexpr int kScopeDepthMax = 64;

/// A graph under construction. A body that becomes a graph of its own takes values of the graph around it as
/// captures.
class Body {
 public:
  explicit Body(Graph& graph, Body* outer = nullptr) : builder(graph), outer_(outer) {}

  /// The value inside that stands for one of the graph around: constants and known sizes are made again.
  Tensor capture(Body& outer, const Tensor& tensor);
  const std::vector<std::pair<ValueId, ValueId>>& captures() const { return captures_; }
  /// The run's, or of a loop's body the iteration's: the outermost graph has an input for it from then on.
  ValueId random_key();

  Builder builder;
  ValueId iteration = ValueId::none;  ///< of a loop's body

 private:
  Body* outer_;
  ValueId random_key_ = ValueId::none;
  std::map<ValueId, ValueId> known_;
  std::vector<std::pair<ValueId, ValueId>> captures_;  ///< outside, inside
};

/// A function that is being called: what its attributes are.
struct FunctionCall {
  const FunctionProto& function;
  std::map<std::string_view, const AttributeProto*> attributes;
};

/// The names of one graph or function body. Names of graphs around it are visible; those around a function's
/// body are not.
class Scope {
 public:
  /// A graph or function on its own.
  Scope(Body& body, const Opsets& opsets) : body(body), opsets(opsets) {}
  /// A graph inside another, built into `body`.
  Scope(Body& body, Scope& outer)
      : body(body),
        opsets(outer.opsets),
        call(outer.call),
        depth(outer.depth + 1),
        path(outer.path_within()),
        outer_(&outer) {}

  bool sees(std::string_view name) const;
  /// CHECKs that it is visible: order_nodes has looked.
  Imported find(std::string_view name);
  Scope* outer() const { return outer_; }
  /// The path of what is inside the node at hand.
  std::string path_within() const { return fmt::format("{}{}/", path, at); }

  Body& body;
  const Opsets& opsets;
  const FunctionCall* call = nullptr;
  int depth = 0;
  std::string path;     ///< the nodes around, by their first outputs: "call/loop/"
  std::string_view at;  ///< the node at hand, likewise
  std::map<std::string_view, Imported> values;

 private:
  Scope* outer_ = nullptr;
};

}  // namespace diji::onnx
