// Which operators are known ahead, generated, or the user's own.
#include "runtime/coverage.h"

#include "graph/collective.h"
#include "graph/custom_op.h"
#include "graph/primitives.h"
#include "runtime/compiler.h"

#include <algorithm>
#include <tuple>

namespace diji {
namespace {

// By value: known before the model runs, because it is a constant, a size, or made of such values.
std::vector<bool> known_values(const Graph& graph) {
  std::vector<bool> known(graph.values().size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    known[i] = graph.values()[i].constant != nullptr || graph.values()[i].contents.has_value();
  }
  for (const Node& node : graph.nodes()) {
    if (node.op->custom != nullptr || has_collective(node)) continue;
    const bool from_known = std::ranges::all_of(
        node.inputs, [&](ValueId id) { return id == ValueId::none || known[static_cast<std::size_t>(id)]; });
    for (const ValueId id : node.outputs)
      known[static_cast<std::size_t>(id)] = known[static_cast<std::size_t>(id)] || from_known;
  }
  return known;
}

std::string reason_of(const Node& node, std::string_view how, std::string_view dialect) {
  if (how == "folded") return "known when the model is loaded";
  if (how == "native") return fmt::format("{} of {}", dialect, node.op->custom->library());
  if (how == "host")
    return fmt::format("C function of {}, which has no {} for these operands", node.op->custom->library(),
                       dialect);
  if (!node.bodies.empty()) return "the runtime runs its bodies";
  return has_collective(node) ? "exchanged between ranks" : "kernel from the primitives";
}

void count_nodes(const Graph& graph, std::string_view dialect, Coverage& coverage) {
  const std::vector<bool> known = known_values(graph);
  for (const Node& node : graph.nodes()) {
    const bool folded =
        symbols_bound_by(node).empty() && !has_collective(node) &&
        std::ranges::all_of(node.outputs, [&](ValueId id) { return known[static_cast<std::size_t>(id)]; });
    const bool native = kernel_of(graph, node, dialect) != nullptr;
    const bool host = node.op->custom != nullptr && !native;
    (native ? coverage.native : host ? coverage.host : folded ? coverage.folded : coverage.generated) += 1;
    const std::string_view how = native ? "native" : host ? "host" : folded ? "folded" : "generated";
    const auto row = std::ranges::find_if(
        coverage.rows, [&](const CoverageRow& r) { return r.op == node.op->name && r.how == how; });
    if (row != coverage.rows.end()) {
      ++row->count;
    } else {
      coverage.rows.push_back({.op = std::string(node.op->name),
                               .how = std::string(how),
                               .count = 1,
                               .reason = reason_of(node, how, dialect)});
    }
    for (const auto& body : node.bodies) count_nodes(*body, dialect, coverage);
  }
}

}  // namespace

Coverage coverage_of(const Graph& graph, std::string_view dialect) {
  Coverage coverage;
  count_nodes(graph, dialect, coverage);
  std::ranges::sort(coverage.rows, [](const CoverageRow& a, const CoverageRow& b) {
    return std::tie(a.op, a.how) < std::tie(b.op, b.how);
  });
  return coverage;
}

std::string Coverage::line() const {
  return fmt::format("{} operators: {} generated, {} folded, {} native, {} on the host",
                     native + generated + host + folded, generated, folded, native, host);
}

void Coverage::add(const Coverage& more) {
  native += more.native;
  generated += more.generated;
  host += more.host;
  folded += more.folded;
  for (const CoverageRow& row : more.rows) {
    const auto same = [&](const CoverageRow& known) { return known.op == row.op && known.how == row.how; };
    const auto found = std::ranges::find_if(rows, same);
    found == rows.end() ? rows.push_back(row) : void(found->count += row.count);
  }
}

}  // namespace diji
