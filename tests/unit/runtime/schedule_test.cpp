// The order of steps with collectives: what runs beside them, and what waits.
#include "runtime/schedule.h"

#include "graph/builder.h"
#include "graph/collective.h"

#include "tests/unit/expect.h"
#include "tests/unit/random_graph.h"

#include <set>

namespace diji {
namespace {

bool cuts(const Node& node) { return primitive_of(node.op) == Primitive::observe; }

/// "exp", "all_reduce 0", "join 0", ...
std::vector<std::string> order_of(const Graph& graph) {
  std::vector<std::string> order;
  for (const Action& action : schedule(graph, cuts)) {
    const Node& node = graph.node(action.node);
    std::string name(node.op->name.substr(5));
    if (has_collective(node)) name += fmt::format(" {}", channel_of(node.attributes).number);
    order.push_back(action.kind == Action::Kind::join ? "join " + name.substr(name.rfind(' ') + 1) : name);
  }
  return order;
}

using Order = std::vector<std::string>;

struct Case {
  Graph graph;
  Builder b{graph};
  ValueId x = graph.add_input("x", {DType::f32, {Dim::symbol("N")}});
  ValueId all_reduce(ValueId value, std::int64_t channel, std::string group = "data") {
    return b.all_reduce(value, Reduction::sum, {std::move(group), channel, 2});
  }
};

TEST_CASE("without collectives the order is the graph's") {
  Case c;
  c.graph.add_output("y", c.b.tanh(c.b.exp(c.x)));
  EXPECT(order_of(c.graph) == Order{"exp", "tanh"});
}

TEST_CASE("a collective begins when its operand is there, and what reads it comes last") {
  Case c;
  const ValueId first = c.b.exp(c.x);
  const ValueId second = c.b.tanh(first);
  const ValueId third = c.b.sqrt(second);
  const ValueId reduced = c.all_reduce(first, 0);
  const ValueId used = c.b.log(reduced);
  const ValueId later = c.all_reduce(second, 1);
  c.graph.add_output("a", used);
  c.graph.add_output("b", c.b.absolute(later));
  c.graph.add_output("c", third);
  EXPECT(order_of(c.graph) ==
         Order{"exp", "all_reduce 0", "tanh", "all_reduce 1", "sqrt", "join 0", "log", "join 1", "absolute"});
}

TEST_CASE("channels begin in their order, also where a later one could begin first") {
  Case c;
  const ValueId slow = c.b.exp(c.b.tanh(c.x));
  const ValueId first = c.all_reduce(slow, 0), second = c.all_reduce(c.x, 1),
                other = c.all_reduce(c.x, 0, "model");
  for (const ValueId id : {first, second, other})
    c.graph.add_output(fmt::format("{}", static_cast<int>(id)), id);
  EXPECT(order_of(c.graph) ==
         Order{"all_reduce 0", "tanh", "exp", "all_reduce 0", "all_reduce 1", "join 1", "join 0"});
}

TEST_CASE("one behind another of its group waits for nothing; of another group it does") {
  Case c;
  const ValueId scattered = c.b.reduce_scatter(c.x, Reduction::sum, {"data", 0, 2});
  const ValueId gathered = c.b.all_gather(scattered, {"data", 1, 2});
  c.graph.add_output("y", c.all_reduce(gathered, 0, "model"));
  EXPECT(order_of(c.graph) == Order{"reduce_scatter 0", "all_gather 1", "join 1", "all_reduce 0", "join 0"});
}

TEST_CASE("a reshape of a result does not wait for it, its readers do") {
  Case c;
  const ValueId reduced = c.all_reduce(c.x, 0);
  const ValueId shaped = c.b.reshape(reduced, {Dim::symbol("N"), 1});
  c.graph.add_output("y", c.b.exp(shaped));
  c.graph.add_output("z", c.b.tanh(c.x));
  EXPECT(order_of(c.graph) == Order{"all_reduce 0", "tanh", "reshape", "join 0", "exp"});
}

TEST_CASE("everything is joined where the host looks") {
  Case c;
  const ValueId reduced = c.all_reduce(c.x, 0);
  const ValueId sizes = c.graph.add_input("n", {DType::i64, {1}});
  c.b.observe(sizes, {Dim::symbol("M")});
  c.graph.add_output("y", c.b.exp(reduced));
  EXPECT(order_of(c.graph) == Order{"all_reduce 0", "join 0", "observe", "exp"});
}

TEST_CASE("two chains of collectives run beside each other, level by level") {
  Case c;
  Values chains = {c.x, c.x};
  for (std::int64_t channel = 0; channel < 4; ++channel) {
    ValueId& chain = chains[static_cast<std::size_t>(channel % 2)];
    chain = c.all_reduce(c.b.exp(chain), channel);
  }
  c.graph.add_output("a", chains[0]);
  c.graph.add_output("b", chains[1]);
  EXPECT(order_of(c.graph) == Order{"exp", "all_reduce 0", "exp", "all_reduce 1", "join 0", "exp",
                                    "all_reduce 2", "join 1", "exp", "all_reduce 3", "join 3"});
}

// What holds of every schedule, told by a walk over it.
void check(const Graph& graph) {
  std::vector<bool> made(graph.values().size(), true), pending(graph.values().size(), false);
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.outputs) made[static_cast<std::size_t>(id)] = false;
  }
  std::map<std::string, std::int64_t> begun;
  std::set<NodeId> ran, open;
  std::vector<std::size_t> alias(graph.values().size());  // the value whose memory it is
  for (std::size_t i = 0; i < alias.size(); ++i) alias[i] = i;
  for (const Action& action : schedule(graph, cuts)) {
    const Node& node = graph.node(action.node);
    const std::string group = channel_of(node.attributes).group;
    if (action.kind == Action::Kind::join) {
      EXPECT(open.contains(action.node));
      std::erase_if(open, [&](NodeId id) {
        const bool ends = id <= action.node && channel_of(graph.node(id).attributes).group == group;
        if (ends) pending[static_cast<std::size_t>(graph.node(id).outputs[0])] = false;
        return ends;
      });
      continue;
    }
    EXPECT(ran.insert(action.node).second);
    for (const ValueId id : node.inputs) {
      const auto at = static_cast<std::size_t>(id);
      EXPECT(made[at]);
      const bool reads = primitive_of(node.op) != Primitive::reshape && !has_collective(node);
      if (reads) EXPECT_FALSE(pending[alias[at]]);
    }
    for (const ValueId id : node.outputs) made[static_cast<std::size_t>(id)] = true;
    if (primitive_of(node.op) == Primitive::reshape)
      alias[static_cast<std::size_t>(node.outputs[0])] = alias[static_cast<std::size_t>(node.inputs[0])];
    if (!has_collective(node)) continue;
    const auto [last, first] = begun.emplace(group, -1);
    EXPECT(channel_of(node.attributes).number > last->second);
    last->second = channel_of(node.attributes).number;
    open.insert(action.node);
    pending[static_cast<std::size_t>(node.outputs[0])] = true;
  }
  EXPECT(open.empty());
  EXPECT(ran.size() == graph.nodes().size());
}

TEST_CASE("every schedule of a random graph is one") {
  test::for_each_seed(2000, [](std::uint64_t seed) {
    INFO("DIJI_TEST_SEED=", seed);
    check(test::RandomGraph(seed, {.steps = static_cast<int>(5 + seed % 30), .collectives = true}).graph());
  });
}

}  // namespace
}  // namespace diji
