// The passes, each a function from graph to graph.
#pragma once

#include "graph/graph.h"
#include "passes/rules.h"

#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace diji {

struct PassOptions {
  std::set<std::string, std::less<>> disabled_rules;  ///< names from rules()
  std::string dump_after;                             ///< a pass name: its result is printed to stderr
  bool verify_each = false;                           ///< verify() after every pass
  std::int64_t fusion_steps_max = kFusionStepsMax;
  std::vector<PassRule> more_rules;  ///< of simplify, behind the table's: one to try before it goes there
  std::shared_ptr<RuleUses> uses;    ///< null: nobody counts
};

/// Composed operators to primitives. Errors: operators whose kind is not built yet, by name.
Result<Graph> decompose(const Graph& graph, const PassOptions& options);
/// Products of dequantised tensors become products of their codes, in i32, behind which the scales are
/// applied: before constants fold, so that weights keep their 8 bits.
Result<Graph> integer_products(const Graph& graph, const PassOptions& options);
/// Nodes whose operands are constants become constants (typed interpreter), within a size budget; integer
/// tensors known as expressions of sizes become prim.dims; a conditional whose branch is known becomes it,
/// and captured constants become the bodies' own.
Result<Graph> fold_constants(const Graph& graph, const PassOptions& options);
/// The named local rules (see rules()) until none applies.
Result<Graph> simplify(const Graph& graph, const PassOptions& options);
/// Equal nodes (operator, operands, attributes) merge, but for collectives; equal constants too.
Result<Graph> merge_common(const Graph& graph, const PassOptions& options);
/// Nodes that no output needs go away; one whose sizes (symbols_bound_by) something needs stays, and so does
/// a collective, which other ranks may wait for.
Result<Graph> remove_dead(const Graph& graph, const PassOptions& options);
/// Groups that become one kernel each: element-wise chains and views, with a reduction, dot product or
/// convolution at the root and element-wise work behind it.
Result<Graph> fuse(const Graph& graph, const PassOptions& options);

struct PassEntry {
  std::string_view name;
  Result<Graph> (*run)(const Graph& graph, const PassOptions& options);
};
/// One pass over a graph and the bodies of its conditionals and loops.
Result<Graph> run_pass(const PassEntry& pass, const Graph& graph, const PassOptions& options);
/// The pipeline in order.
std::span<const PassEntry> pipeline();
Result<Graph> run_pipeline(Graph graph, const PassOptions& options);

}  // namespace diji
