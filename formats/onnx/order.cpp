// Kahn's algorithm with the file's order as priority; std::map because a hash table can be attacked.
#include "formats/onnx/order.h"

#include "formats/onnx/names.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <string>

namespace diji::onnx {
namespace {

constexpr std::size_t kOutside = static_cast<std::size_t>(-1);  // a graph input or an initializer

class Definitions {
 public:
  Definitions(const GraphProto& graph, std::string_view file, const OuterNames& outer)
      : graph_(graph), file_(file), outer_(outer) {}

  Result<void> collect() {
    for (const ValueInfoProto& input : graph_.inputs) TRY(define(input.name, kOutside, input.offset));
    std::set<std::string_view> initializers;
    for (const TensorProto& tensor : graph_.initializers) {
      if (!initializers.insert(tensor.name).second) return twice(tensor.name, tensor.offset);
      producers_.emplace(tensor.name, kOutside);  // beside an input of its name it is that input's default
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::string_view output : graph_.nodes[i].outputs) {
        if (output.empty()) continue;
        if (is_outer(output)) return shadows(output, graph_.nodes[i]);
        TRY(define(output, i, graph_.nodes[i].offset));
      }
    }
    return {};
  }

  const std::size_t* producer(std::string_view name) const {
    const auto found = producers_.find(name);
    return found == producers_.end() ? nullptr : &found->second;
  }

  bool is_outer(std::string_view name) const { return outer_ && outer_(name); }

  std::unexpected<Error> undefined(std::string_view name, std::string_view user, std::int64_t offset) const {
    std::vector<std::string> names;
    for (const auto& [known, index] : producers_) names.emplace_back(known);
    return fail_at(ErrorCode::malformed, file_, offset, "{} needs '{}', which nothing defines{}", user,
                   shown(name), nearest_hint(name, names));
  }

 private:
  Result<void> define(std::string_view name, std::size_t producer, std::int64_t offset) {
    if (!producers_.emplace(name, producer).second) return twice(name, offset);
    return {};
  }
  std::unexpected<Error> shadows(std::string_view name, const NodeProto& node) const {
    return fail_at(ErrorCode::malformed, file_, node.offset,
                   "{} makes the value '{}', which a graph around this one has already", title_of(node),
                   shown(name));
  }
  std::unexpected<Error> twice(std::string_view name, std::int64_t offset) const {
    return fail_at(ErrorCode::malformed, file_, offset, "the value '{}' is defined twice", shown(name));
  }

  const GraphProto& graph_;
  std::string_view file_;
  const OuterNames& outer_;
  std::map<std::string_view, std::size_t> producers_;
};

using Names = std::set<std::string_view>;

void add_names_of_inner_graphs(const NodeProto& node, Names& names);

// What a graph reads and does not define itself.
Names free_names(const GraphProto& graph) {
  Names names;
  for (const NodeProto& node : graph.nodes) {
    for (const std::string_view input : node.inputs) names.insert(input);
    add_names_of_inner_graphs(node, names);
  }
  for (const ValueInfoProto& output : graph.outputs) names.insert(output.name);
  for (const ValueInfoProto& input : graph.inputs) names.erase(input.name);
  for (const TensorProto& tensor : graph.initializers) names.erase(tensor.name);
  for (const NodeProto& node : graph.nodes) {
    for (const std::string_view output : node.outputs) names.erase(output);
  }
  names.erase("");
  return names;
}

void add_names_of_inner_graphs(const NodeProto& node, Names& names) {
  for_each_graph(node, [&](const GraphProto& graph) { names.merge(free_names(graph)); });
}

// Names nodes of one cycle among those that are left: going back from node to node that waits must come
// round.
std::unexpected<Error> refuse_cycle(const GraphProto& graph, std::string_view file,
                                    const std::vector<std::vector<std::size_t>>& needs,
                                    const std::vector<std::size_t>& waiting) {
  constexpr std::size_t kNamedMax = 8;
  const auto waits = [&](std::size_t node) { return waiting[node] > 0; };
  std::size_t at = 0;
  while (!waits(at)) ++at;
  std::vector<bool> seen(graph.nodes.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    at = *std::ranges::find_if(needs[at], waits);
  }
  std::vector<std::string> titles;
  const std::size_t start = at;
  std::size_t length = 0;
  do {
    if (titles.size() < kNamedMax) titles.push_back(title_of(graph.nodes[at]));
    at = *std::ranges::find_if(needs[at], waits);
    ++length;
  } while (at != start);
  if (length > titles.size()) titles.push_back(fmt::format("{} more", length - titles.size()));
  auto error = fail_at(ErrorCode::malformed, file, graph.nodes[start].offset,
                       "the graph has a cycle: {}, each of which needs the next and the last the first",
                       fmt::join(titles, ", "));
  error.error().op = type_of(graph.nodes[start]);
  return error;
}

Result<std::vector<std::size_t>> sort_nodes(const GraphProto& graph, std::string_view file,
                                            const std::vector<std::vector<std::size_t>>& needs) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::vector<std::size_t>> readers(count);
  std::vector<std::size_t> waiting(count, 0);
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    waiting[i] = needs[i].size();
    for (const std::size_t producer : needs[i]) readers[producer].push_back(i);
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const std::size_t reader : readers[node]) {
      if (--waiting[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() < count) return refuse_cycle(graph, file, needs, waiting);
  return order;
}

}  // namespace

std::set<std::string_view> names_read(const NodeProto& node) {
  Names names(node.inputs.begin(), node.inputs.end());
  names.erase("");
  add_names_of_inner_graphs(node, names);
  return names;
}

Result<NodeOrder> order_nodes(const GraphProto& graph, std::string_view file, const OuterNames& outer) {
  Definitions definitions(graph, file, outer);
  TRY(definitions.collect());
  NodeOrder result;
  std::vector<std::vector<std::size_t>> needs(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const NodeProto& node = graph.nodes[i];
    result.nodes.push_back(i);
    const auto need = [&](std::size_t producer) {
      if (producer == kOutside) return;
      needs[i].push_back(producer);
      result.was_sorted &= producer < i;
    };
    for (const std::string_view input : node.inputs) {
      if (input.empty()) continue;
      if (const std::size_t* producer = definitions.producer(input)) {
        need(*producer);
      } else if (!definitions.is_outer(input)) {
        return definitions.undefined(input, title_of(node), node.offset);
      }
    }
    Names inner;  // one that is defined nowhere is refused where it is read
    add_names_of_inner_graphs(node, inner);
    for (const std::string_view name : inner) {
      if (const std::size_t* producer = definitions.producer(name)) need(*producer);
    }
  }
  for (const ValueInfoProto& output : graph.outputs) {
    if (definitions.producer(output.name) != nullptr || definitions.is_outer(output.name)) continue;
    return definitions.undefined(output.name, "the list of outputs", output.offset);
  }
  if (!result.was_sorted) result.nodes = TRY(sort_nodes(graph, file, needs));
  return result;
}

}  // namespace diji::onnx
