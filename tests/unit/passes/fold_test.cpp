// Folding keeps what the graph reads and nothing else.
#include "graph/builder.h"
#include "passes/passes.h"

#include "tests/unit/expect.h"

#include <algorithm>
#include <vector>

namespace diji {
namespace {

std::vector<HostTensor> constants_with_bytes(const Graph& graph) {
  std::vector<HostTensor> found;
  for (const Value& value : graph.values()) {
    if (value.constant != nullptr) found.push_back(*value.constant);
  }
  return found;
}

TEST_CASE("what folding alone has read is given back") {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::f32, {Dim(2)}});
  const ValueId w = b.constant(HostTensor::of<float>({2}, {1.0F, 2.0F}));
  const ValueId doubled = b.add(w, w);
  const ValueId shared = b.multiply(doubled, w);
  const ValueId last = b.subtract(shared, doubled);
  graph.add_output("y", b.add(x, last));
  graph.add_output("shared", shared);
  REQUIRE(b.ok());
  const auto folded = fold_constants(graph, {});
  REQUIRE(folded);
  const auto left = constants_with_bytes(*folded);
  // w itself, which the model has; what an output is; what the addition reads.
  REQUIRE(left.size() == 3);
  EXPECT(left[0].same_bits(HostTensor::of<float>({2}, {1.0F, 2.0F})));
  EXPECT(left[1].same_bits(HostTensor::of<float>({2}, {2.0F, 8.0F})));
  EXPECT(left[2].same_bits(HostTensor::of<float>({2}, {0.0F, 4.0F})));
  EXPECT(folded->nodes().size() == 1);
}

}  // namespace
}  // namespace diji
