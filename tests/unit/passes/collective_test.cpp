// Random graphs of several ranks: no pass merges, drops or reorders a collective, and all ranks keep their
// results.
#include "graph/collective.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "passes/passes.h"

#include "tests/unit/expect.h"
#include "tests/unit/random_graph.h"

namespace diji {
namespace {

constexpr std::uint64_t kGraphs = 600;
std::vector<MeshAxis> mesh() { return {{"data", test::kDataRanks}, {"model", test::kModelRanks}}; }

/// What the ranks of each group do, in its order.
std::map<std::string, std::vector<std::string>> orders(const Graph& graph) {
  std::map<std::string, std::vector<std::string>> result;
  for (const Node& node : graph.nodes()) {
    const auto primitive = primitive_of(node.op);
    if (primitive && is_collective(*primitive))
      result[channel_of(node.attributes).group].push_back(title_of_collective(node));
  }
  return result;
}

bool same(const HostTensor& a, const HostTensor& b) {
  if (a.same_bits(b)) return true;
  if (a.dtype() != b.dtype() || a.shape() != b.shape() || !is_floating(a.dtype())) return false;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const double x = a.as_double(i), y = b.as_double(i);
    if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

Result<std::vector<std::vector<HostTensor>>> run(const Graph& graph, const test::RandomGraph& random) {
  std::vector<std::vector<HostTensor>> inputs;
  for (std::int64_t rank = 0; rank < test::kDataRanks * test::kModelRanks; ++rank)
    inputs.push_back(random.inputs_of(rank));
  const Graph* const graphs[] = {&graph};
  return interpret_ranks(graphs, mesh(), inputs, Arithmetic::typed);
}

TEST_CASE("random graphs keep their collectives and all ranks' results through every pass") {
  std::map<std::string_view, int> counts;
  int unread = 0;
  test::for_each_seed(kGraphs, [&](std::uint64_t seed) {
    INFO("DIJI_TEST_SEED=", seed);
    const test::RandomGraph random(seed, {.steps = static_cast<int>(4 + seed % 10), .collectives = true});
    CAPTURE(print(random.graph()));
    const auto wanted = orders(random.graph());
    Graph graph = random.graph();
    for (const PassEntry& pass : pipeline()) {
      CAPTURE(pass.name);
      auto changed = run_pass(pass, graph, {});
      REQUIRE_MESSAGE(changed, changed.error().message);
      graph = std::move(*changed);
      const auto verified = verify(graph);
      REQUIRE_MESSAGE(verified, verified.error().message);
      EXPECT(orders(graph) == wanted);
    }
    std::vector<bool> read(random.graph().values().size());
    for (const Node& node : random.graph().nodes()) {
      ++counts[node.op->name];
      for (const ValueId id : node.inputs) read[static_cast<std::size_t>(id)] = true;
    }
    for (const Port& port : random.graph().outputs()) read[static_cast<std::size_t>(port.value)] = true;
    for (const Node& node : random.graph().nodes())
      unread += has_collective(node) && !read[static_cast<std::size_t>(node.outputs[0])] ? 1 : 0;
    const auto before = run(random.graph(), random);
    REQUIRE_MESSAGE(before, before.error().message);
    const auto after = run(graph, random);
    REQUIRE_MESSAGE(after, after.error().message);
    for (std::size_t rank = 0; rank < before->size(); ++rank) {
      for (std::size_t i = 0; i < (*before)[rank].size(); ++i) {
        CAPTURE(rank);
        EXPECT(same((*after)[rank][i], (*before)[rank][i]));
      }
    }
  });
  if (std::getenv("DIJI_TEST_SEED") != nullptr) return;
  for (const Primitive primitive : {Primitive::all_reduce, Primitive::all_gather, Primitive::reduce_scatter,
                                    Primitive::all_to_all, Primitive::collective_broadcast}) {
    CAPTURE(op_of(primitive).name);
    EXPECT(counts[op_of(primitive).name] > 50);
  }
  EXPECT(unread > 50);  // which remove_dead would have dropped
}

}  // namespace
}  // namespace diji
