// Branches, their captures, and what to do when they disagree about a rank.
#include "formats/onnx/conditional.h"

#include "formats/onnx/names.h"
#include "formats/onnx/special.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace diji::onnx {
namespace {

// The nodes that need the results of an If of unknown rank, and what they are for.
struct Rest {
  const GraphProto& graph;
  NodeOrder order;
  std::vector<std::string_view> results;  ///< outputs of the graph that depend on the If
};

struct Branch {
  explicit Branch(Scope& outer) : graph(outer.body.builder.graph().child()), body(graph, &outer.body) {}
  Graph graph;
  Body body;
  ImportedList outputs;
};

// "tensor f32 of rank 2": what both branches must agree on.
std::string form_of(const Branch& branch, const Imported& value) {
  const auto one = [&](const Tensor& tensor) {
    if (tensor.id == ValueId::none) return std::string("nothing");
    const Type& type = branch.graph.type(tensor.id);
    return fmt::format("{} of rank {}", name_of(type.dtype), type.shape.size());
  };
  if (const auto* tensor = std::get_if<Tensor>(&value.value)) return one(*tensor);
  if (const auto* sequence = std::get_if<Sequence>(&value.value)) {
    std::vector<std::string> items;
    for (const Tensor& item : sequence->items) items.push_back(one(item));
    return fmt::format("a sequence of {} [{}]", name_of(sequence->dtype), fmt::join(items, ", "));
  }
  const auto& optional = std::get<Optional>(value.value);
  return optional.content ? fmt::format("an optional {}", form_of(branch, *optional.content))
                          : "an empty optional";
}

class Conditional {
 public:
  Conditional(NodeImporter& importer, const NodeProto& node, Scope& scope)
      : importer_(importer), node_(node), scope_(scope), site_{importer, node, scope, {}} {
    for (const std::string_view input : node.inputs)
      site_.inputs.push_back(input.empty() ? Imported() : scope.find(input));
  }

  Result<const GraphProto*> proto(bool then) const {
    const GraphProto* graph = TRY(site_.graph(then ? "then_branch" : "else_branch"));
    if (graph->inputs.empty()) return graph;
    return fail(ErrorCode::malformed, "its {} has inputs; a branch takes none",
                then ? "then_branch" : "else_branch");
  }

  /// Nothing: only a run tells.
  Result<std::optional<bool>> known_condition() {
    condition_ = TRY(site_.plain(0, "the condition"));
    if (site_.builder().dtype(condition_) != DType::boolean) {
      return fail(ErrorCode::mismatch, "the condition is {}, one bool is wanted",
                  text_of(site_.builder().type(condition_)));
    }
    const auto elements = site_.builder().constant_ints(condition_);
    if (!elements || elements->size() != 1) return std::nullopt;
    return (*elements)[0] != 0;
  }

  Result<ImportedList> add_inline(bool then) {
    Scope inner(scope_.body, scope_);
    return importer_.add_graph(*TRY(proto(then)), {}, inner);
  }

  Result<void> add_branches(const Rest* rest) {
    then_ = TRY(branch(true, nullptr, rest));
    otherwise_ = TRY(branch(false, then_.get(), rest));
    for (const auto& [outside, inside] : otherwise_->body.captures())
      then_->body.capture(scope_.body, {outside});
    return {};
  }

  /// Where what stands behind the If can be built after one branch only, no run may take the other.
  std::optional<bool> only_branch(const Rest& rest) {
    const bool then = branch(true, nullptr, &rest).has_value();
    const bool otherwise = branch(false, nullptr, &rest).has_value();
    return then == otherwise ? std::nullopt : std::optional(then);
  }

  /// Every run checks that the condition says so: by the sizes that it compares, else by its value.
  Result<void> assume(bool then) {
    Builder& builder = site_.builder();
    Graph& graph = builder.graph();
    const std::string why = fmt::format("the model works only where '{}' takes its {} branch",
                                        shown(node_.name), then ? "then" : "else");
    const NodeId producer = graph.value(condition_).producer;
    if (then && producer != NodeId::none && graph.node(producer).op->name == "equal") {
      const auto left = builder.contents(graph.node(producer).inputs[0]);
      const auto right = builder.contents(graph.node(producer).inputs[1]);
      if (left && right && left->size() == 1 && right->size() == 1) {
        graph.require({Constraint::Kind::equal, (*left)[0], (*right)[0], why});
        return {};
      }
    }
    const Dim truth = graph.fresh_symbol({0, 1});
    builder.observe(builder.convert(builder.reshape(condition_, {1}), DType::i64), {truth});
    graph.require({Constraint::Kind::equal, truth, then ? 1 : 0, why});
    return builder.status();
  }

  /// "" when the branches fit.
  std::string difference() const {
    if (then_->outputs.size() != otherwise_->outputs.size())
      return fmt::format("{} and {} results", then_->outputs.size(), otherwise_->outputs.size());
    for (std::size_t i = 0; i < then_->outputs.size(); ++i) {
      const std::string a = form_of(*then_, then_->outputs[i]),
                        b = form_of(*otherwise_, otherwise_->outputs[i]);
      if (a != b) return fmt::format("result {} is {} in one branch and {} in the other", i, a, b);
    }
    return "";
  }

  Result<ImportedList> finish() {
    if (const std::string text = difference(); !text.empty()) {
      auto error = fail(ErrorCode::unsupported, "{}, and the condition is not known", text);
      error.error().contents_decide = true;
      return error;
    }
    ImportedList results = then_->outputs;
    for (Branch* branch : {then_.get(), otherwise_.get()}) {
      for (Imported& output : branch->outputs) TRY(add_outputs(branch->graph, output));
    }
    Values captures;
    for (const auto& [outside, inside] : then_->body.captures()) captures.push_back(outside);
    const Values values = site_.builder().conditional(condition_, std::move(then_->graph),
                                                      std::move(otherwise_->graph), std::move(captures));
    TRY(site_.builder().status());
    std::size_t next = 0;
    for (Imported& result : results) {
      for (Tensor* tensor : tensors_of(result)) {
        if (tensor->id != ValueId::none) tensor->id = values[next++];
      }
    }
    return results;
  }

 private:
  // Takes the captures of `sibling` first, so that both take the same ones in the same order.
  Result<std::unique_ptr<Branch>> branch(bool then, const Branch* sibling, const Rest* rest) {
    auto result = std::make_unique<Branch>(scope_);
    if (sibling != nullptr) {
      for (const auto& [outside, inside] : sibling->body.captures())
        result->body.capture(scope_.body, {outside});
    }
    Scope inner(result->body, scope_);
    result->outputs = TRY(importer_.add_graph(*TRY(proto(then)), {}, inner));
    if (rest == nullptr) return result;
    Scope behind(result->body, scope_);
    TRY(importer_.bind_outputs(node_, std::move(result->outputs), behind));
    for (const std::size_t index : rest->order.nodes) TRY(importer_.charge(rest->graph.nodes[index]));
    TRY(importer_.add_nodes(rest->graph, rest->order, behind));
    result->outputs.clear();
    for (const std::string_view name : rest->results) result->outputs.push_back(behind.find(name));
    return result;
  }

  static Result<void> add_outputs(Graph& graph, Imported& output) {
    for (const Tensor* tensor : tensors_of(output)) {
      if (tensor->packed != 0) return refuse_packed(tensor->packed, "a branch's result");
      if (tensor->id != ValueId::none)
        graph.add_output(fmt::format("result{}", graph.outputs().size()), tensor->id);
    }
    return {};
  }

  NodeImporter& importer_;
  const NodeProto& node_;
  Scope& scope_;
  Site site_;
  ValueId condition_ = ValueId::none;
  std::unique_ptr<Branch> then_, otherwise_;
};

// Splits what stands behind the If: nodes that do not need it are imported now.
Result<Rest> rest_behind(NodeImporter& importer, const GraphProto& graph, const NodeOrder& order,
                         std::size_t position, Scope& scope) {
  const NodeProto& node = graph.nodes[order.nodes[position]];
  std::set<std::string_view> needs(node.outputs.begin(), node.outputs.end());
  needs.erase("");
  Rest rest{.graph = graph, .order = {}, .results = {}};
  NodeOrder free;
  for (std::size_t i = position + 1; i < order.nodes.size(); ++i) {
    const NodeProto& other = graph.nodes[order.nodes[i]];
    const bool depends =
        std::ranges::any_of(names_read(other), [&](std::string_view name) { return needs.contains(name); });
    (depends ? rest.order : free).nodes.push_back(order.nodes[i]);
    if (depends) needs.insert(other.outputs.begin(), other.outputs.end());
    needs.erase("");
  }
  for (const ValueInfoProto& output : graph.outputs) {
    if (needs.contains(output.name) && std::ranges::find(rest.results, output.name) == rest.results.end())
      rest.results.push_back(output.name);
  }
  TRY(importer.add_nodes(graph, free, scope));
  return rest;
}

Result<bool> add(NodeImporter& importer, const GraphProto& graph, const NodeOrder& order,
                 std::size_t position, Scope& scope) {
  const NodeProto& node = graph.nodes[order.nodes[position]];
  Conditional conditional(importer, node, scope);
  if (const auto known = TRY(conditional.known_condition())) {
    TRY(importer.bind_outputs(node, TRY(conditional.add_inline(*known)), scope));
    return false;
  }
  TRY(conditional.add_branches(nullptr));
  if (conditional.difference().empty()) {
    TRY(importer.bind_outputs(node, TRY(conditional.finish()), scope));
    return false;
  }
  const Rest rest = TRY(rest_behind(importer, graph, order, position, scope));
  if (const auto only = conditional.only_branch(rest)) {
    TRY(conditional.assume(*only));
    TRY(importer.bind_outputs(node, TRY(conditional.add_inline(*only)), scope));
    TRY(importer.add_nodes(rest.graph, rest.order, scope));
    return true;
  }
  TRY(conditional.add_branches(&rest));
  ImportedList results = TRY(conditional.finish());
  for (std::size_t i = 0; i < results.size(); ++i) scope.values[rest.results[i]] = std::move(results[i]);
  return true;
}

}  // namespace

Result<bool> add_conditional(NodeImporter& importer, const GraphProto& graph, const NodeOrder& order,
                             std::size_t position, Scope& scope) {
  auto swallowed = add(importer, graph, order, position, scope);
  if (swallowed) return swallowed;
  return at_node(importer.model().file, graph.nodes[order.nodes[position]], std::move(swallowed).error());
}

}  // namespace diji::onnx
