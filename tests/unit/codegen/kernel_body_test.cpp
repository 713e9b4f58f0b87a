// What is one kernel, what is not and why, and how views become affine accesses.
#include "codegen/kernel_body.h"

#include "graph/builder.h"

#include "tests/unit/expect.h"

#include <functional>

namespace diji {
namespace {

const Dim N = Dim::symbol("N"), M = Dim::symbol("M");

struct Body {
  Graph graph;
  Builder b{graph};
  ValueId input(Shape shape) {
    return graph.add_input(fmt::format("{}", graph.inputs().size()), {DType::f32, std::move(shape)});
  }
  ValueId dot(ValueId x, ValueId y) {
    return b.dot_general(x, y, {.lhs_contracting = {1}, .rhs_contracting = {0}});
  }
};

// The kernel of what `formula` builds; the body lives as long as the result.
struct Flat {
  std::shared_ptr<Body> body;
  Result<KernelBody> kernel;
};
Flat flat(const std::function<ValueId(Body&)>& formula) {
  auto body = std::make_shared<Body>();
  body->graph.add_output("y", formula(*body));
  REQUIRE_MESSAGE(body->b.ok(), body->b.status().error().message);
  return {body, flatten(body->graph)};
}
std::string refusal(const std::function<ValueId(Body&)>& formula) {
  const Flat result = flat(formula);
  return result.kernel ? "one kernel" : result.kernel.error().message;
}
// "offset + [strides]" of every load of a program.
std::string accesses(const ScalarProgram& program) {
  std::vector<std::string> texts;
  for (const ScalarStep& step : program.steps) {
    if (step.kind == ScalarStep::Kind::load)
      texts.push_back(fmt::format("{} + {}", step.access.offset.text(), text_of(step.access.strides)));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

TEST_CASE("views become affine accesses with symbolic strides") {
  const auto access = [](const std::function<ValueId(Body&)>& formula) {
    const Flat result = flat(formula);
    return result.kernel ? accesses(result.kernel->programs[0]) : result.kernel.error().message;
  };
  EXPECT(access([](Body& k) { return k.b.exp(k.input({N, M, 3})); }) == "0 + [3*M, 3, 1]");
  EXPECT(access([](Body& k) { return k.b.transpose(k.input({N, M}), {1, 0}); }) == "0 + [1, M]");
  EXPECT(access([](Body& k) { return k.b.broadcast(k.input({N, 1}), {N, M}); }) == "0 + [1, 0]");
  EXPECT(access([](Body& k) { return k.b.slice(k.input({N, 10}), {N - 1, 2}, {N, 3}, {-1, 2}); }) ==
         "10*N - 8 + [-10, 2]");
  EXPECT(access([](Body& k) {
           return k.b.slice(k.b.slice(k.input({10}), {9}, {10}, {-1}), {1}, {4}, {2});
         }) == "8 + [-2]");
  EXPECT(access([](Body& k) { return k.b.reshape(k.input({N, 1, M}), {1, N, M, 1}); }) == "0 + [0, M, 1, 0]");
  EXPECT(access([](Body& k) {
           const ValueId x = k.input({N, N});
           return k.b.add(x, k.b.transpose(x, {1, 0}));
         }) == "0 + [N, 1]; 0 + [1, N]");
}

TEST_CASE("the same element is loaded once") {
  const Flat result = flat([](Body& k) {
    const ValueId x = k.input({N});
    return k.b.multiply(k.b.exp(x), k.b.add(x, k.b.exp(x)));
  });
  REQUIRE(result.kernel);
  EXPECT(accesses(result.kernel->programs[0]) == "0 + [1]");
  EXPECT(result.kernel->root == KernelBody::Root::map);
}

TEST_CASE("roots with work before and behind") {
  const Flat reduce = flat([](Body& k) {
    const ValueId x = k.input({N, M});
    return k.b.exp(k.b.reduce(k.b.multiply(x, x), Reduction::sum, {1}));
  });
  REQUIRE(reduce.kernel);
  EXPECT(reduce.kernel->root == KernelBody::Root::reduce);
  EXPECT((reduce.kernel->reduced == std::vector<bool>{false, true}));
  EXPECT(text_of(reduce.kernel->space) == "[N, M]");
  EXPECT(reduce.kernel->epilogue.steps.size() == 2);
  const Flat dot =
      flat([](Body& k) { return k.b.tanh(k.b.add(k.dot(k.input({N, 3}), k.input({3, M})), k.input({M}))); });
  REQUIRE_MESSAGE(dot.kernel, dot.kernel.error().message);
  EXPECT(dot.kernel->root == KernelBody::Root::dot);
  EXPECT(accesses(dot.kernel->epilogue) == "0 + [0, 1]");
  const Flat parts =
      flat([](Body& k) { return k.b.concatenate({k.b.exp(k.input({N, 2})), k.input({N, 3})}, 1); });
  REQUIRE(parts.kernel);
  EXPECT(parts.kernel->root == KernelBody::Root::concatenate);
  EXPECT(parts.kernel->programs.size() == 2);
  const Flat ones =
      flat([](Body& k) { return k.b.reshape(k.b.reduce(k.input({N, M}), Reduction::max, {1}), {N, 1}); });
  REQUIRE(ones.kernel);
  EXPECT(ones.kernel->epilogue.steps.size() == 1);
}

// "offset + [strides] + terms, checks" of every load.
std::string loads(const std::function<ValueId(Body&)>& formula) {
  const Flat result = flat(formula);
  if (!result.kernel) return result.kernel.error().message;
  std::vector<std::string> texts;
  for (const ScalarStep& step : result.kernel->programs[0].steps) {
    if (step.kind != ScalarStep::Kind::load) continue;
    std::string text = fmt::format("{} + {}", step.access.offset.text(), text_of(step.access.strides));
    for (const IndexTerm& term : step.terms) text += fmt::format(" + %{}*{}", term.step, term.stride.text());
    for (const IndexCheck& check : step.checks) {
      text += fmt::format(", {} + {}", check.index.offset.text(), text_of(check.index.strides));
      for (const IndexTerm& term : check.terms) text += fmt::format(" + %{}", term.step);
      text += fmt::format(" < {}", check.size.text());
    }
    texts.push_back(text);
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

TEST_CASE("indices made of coordinates stay affine, and are checked only where sizes do not prove them") {
  EXPECT(loads([](Body& k) {
           return k.b.gather(k.input({N, M}), {k.b.iota({N, M}, 0), k.b.iota({N, M}, 1)});
         }) == "0 + [M, 1]");
  EXPECT(loads([](Body& k) {  // padded
           const ValueId at = k.b.subtract(k.b.iota({N + 5}, 0), k.b.scalar(DType::i64, 2));
           return k.b.gather(k.input({N}), {at}, true);
         }) == "-2 + [1], -2 + [1] < N");
  EXPECT(loads([](Body& k) {  // a window with stride 2
           const ValueId at =
               k.b.add(k.b.multiply(k.b.iota({M, 3}, 0), k.b.scalar(DType::i64, 2)), k.b.iota({M, 3}, 1));
           return k.b.gather(k.input({2 * M + 1}), {at});
         }) == "0 + [2, 1]");
  EXPECT(loads([](Body& k) {  // backwards: a size in the index
           const ValueId last = k.b.subtract(k.b.reshape(k.b.dims({N}), {}), k.b.scalar(DType::i64, 1));
           return k.b.gather(k.input({N, M}), {k.b.subtract(last, k.b.iota({N, M}, 0)), k.b.iota({N, M}, 1)});
         }) == "M*N - M + [-M, 1]");
  EXPECT(loads([](Body& k) {  // through views of the index and of what is read
           const ValueId at = k.b.broadcast(k.b.reshape(k.b.iota({N}, 0), {N, 1}), {N, M});
           return k.b.gather(k.b.transpose(k.input({M, N}), {1, 0}), {at, k.b.iota({N, M}, 1)});
         }) == "0 + [1, N]");
}

TEST_CASE("indices that are data are terms of the element number") {
  const auto index = [](Body& k, Shape shape) {
    return k.graph.add_input(fmt::format("i{}", k.graph.inputs().size()), {DType::i64, std::move(shape)});
  };
  EXPECT(loads([&](Body& k) {  // rows of a table: the last axis is read in order
           const ValueId rows = k.b.broadcast(k.b.reshape(index(k, {N}), {N, 1}), {N, 64});
           return k.b.gather(k.input({M, 64}), {rows, k.b.iota({N, 64}, 1)});
         }) == "0 + [1, 0]; 0 + [0, 1] + %0*64, 0 + [0, 0] + %0 < M");
  EXPECT(loads([&](Body& k) {  // moved by a constant: still a term
           return k.b.gather(k.input({M}), {k.b.add(index(k, {N}), k.b.scalar(DType::i64, 3))});
         }) == "0 + [1]; 0 + [0] + %2*1, 0 + [0] + %2 < M");
  EXPECT(refusal([&](Body& k) { return k.b.gather(k.b.exp(k.input({M})), {index(k, {N})}); }) ==
         "not one kernel: a gather of something computed here");
}

TEST_CASE("a scatter knows along which axes no two updates meet") {
  const auto apart = [](const std::function<ValueId(Body&)>& formula) {
    const Flat result = flat(formula);
    REQUIRE_MESSAGE(result.kernel, result.kernel.error().message);
    return result.kernel->apart;
  };
  const auto rows = [](Body& k, ValueId place) {
    const ValueId row = k.graph.add_input("i", {DType::i64, {N, 1}});
    return k.b.scatter(k.input({M, 64}), k.input({N, 64}), {row, place}, Update::add);
  };
  EXPECT(apart([&](Body& k) { return rows(k, k.b.iota({N, 64}, 1)); }) == std::vector<bool>{false, true});
  EXPECT(apart([&](Body& k) { return rows(k, k.b.add(k.b.iota({N, 64}, 1), k.b.scalar(DType::i64, 1))); }) ==
         std::vector<bool>{false, true});
  EXPECT(apart([&](Body& k) {
           return rows(k, k.b.multiply(k.b.iota({N, 64}, 1), k.b.scalar(DType::i64, 0)));
         }) == std::vector<bool>{false, false});
  EXPECT(apart([&](Body& k) { return rows(k, k.b.add(k.b.iota({N, 64}, 1), k.b.iota({N, 64}, 0))); }) ==
         std::vector<bool>{false, false});
}

TEST_CASE("what is not one kernel, and why") {
  EXPECT(refusal([](Body& k) {
           return k.b.reduce(k.b.reduce(k.input({2, 3}), Reduction::sum, {1}), Reduction::max, {0});
         }) == "not one kernel: two roots");
  EXPECT(refusal([](Body& k) { return k.b.reshape(k.input({N, 6}), {N, 2, 3}); }) ==
         "not one kernel: a reshape that merges or splits axes");
  EXPECT(refusal([](Body& k) { return k.b.exp(k.b.concatenate({k.input({2}), k.input({3})}, 0)); }) ==
         "not one kernel: work behind a concatenation");
  EXPECT(refusal([](Body& k) { return k.dot(k.b.exp(k.input({2, 3})), k.input({3, 2})); }) ==
         "not one kernel: prim.dot_general of something computed here");
  EXPECT(refusal([](Body& k) {
           const ValueId y = k.b.reduce(k.input({4, 4, 5}), Reduction::max, {2});
           return k.b.add(y, k.b.transpose(y, {1, 0}));
         }) == "not one kernel: the root is read at other coordinates than its own");
  EXPECT(refusal([](Body& k) {
           return k.b.broadcast(k.b.reduce(k.input({4, 5}), Reduction::max, {1}), {3, 4});
         }) == "not one kernel: the output has other sizes than the root");
  EXPECT(refusal([](Body& k) {
           return k.b.slice(k.b.reduce(k.input({4, 5}), Reduction::max, {1}), {0}, {2}, {1});
         }) == "not one kernel: the output has other sizes than the root");
}

TEST_CASE("same_but_for_ones and strides_of") {
  EXPECT(same_but_for_ones({N, 1, 3}, {1, N, 3}));
  EXPECT(same_but_for_ones({}, {1, 1}));
  EXPECT_FALSE(same_but_for_ones({N, 3}, {3, N}));
  EXPECT_FALSE(same_but_for_ones({Dim(3) * N}, {3, N}));
  EXPECT(text_of(strides_of({2, N, 3})) == "[3*N, 3, 1]");
  EXPECT(strides_of({}).empty());
}

}  // namespace
}  // namespace diji
