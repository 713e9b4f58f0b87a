// The order of the passes.
#include "graph/text.h"
#include "graph/verify.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

#include <cstdio>

namespace diji {
namespace {

constexpr PassEntry kPipeline[] = {
    {"decompose", decompose}, {"integer_products", integer_products}, {"fold_constants", fold_constants},
    {"simplify", simplify},   {"merge_common", merge_common},         {"remove_dead", remove_dead},
    {"fuse", fuse},
};

}  // namespace

std::span<const PassEntry> pipeline() { return kPipeline; }

Result<Graph> run_pass(const PassEntry& pass, const Graph& graph, const PassOptions& options) {
  // The graph first: what it makes may have bodies too.
  const Graph changed = TRY(pass.run(graph, options));
  return rewrite_bodies(changed, [&](const Graph& body) { return run_pass(pass, body, options); });
}

Result<Graph> run_pipeline(Graph graph, const PassOptions& options) {
  for (const PassEntry& pass : kPipeline) {
    graph = TRY(run_pass(pass, graph, options));
    if (options.verify_each) {
      if (auto verified = verify(graph); !verified)
        return in_context(fmt::format("after pass {}", pass.name), std::move(verified).error());
    }
    if (options.dump_after == pass.name) fmt::print(stderr, "{}", print(graph));
  }
  return graph;
}

}  // namespace diji
