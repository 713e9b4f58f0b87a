// Types of every primitive: right operands, wrong ones with their sentence, symbolic ones with the assumption
// that is recorded; and contents that stay exact.
#include "graph/builder.h"
#include "graph/primitives.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

const Dim N = Dim::symbol("N"), M = Dim::symbol("M");

struct Inferred {
  std::string type;                      // or the error
  std::vector<std::string> assumptions;  // "N == M"
};

Inferred infer(Primitive primitive, const std::vector<Type>& operands, const Attributes& attributes) {
  Graph graph;
  Values values;
  for (const Type& type : operands) values.push_back(graph.add_input(fmt::format("{}", values.size()), type));
  Builder b(graph);
  const ValueId y = b.primitive(primitive, values, attributes);
  Inferred result{b.ok() ? text_of(graph.type(y)) : b.status().error().message, {}};
  for (const Constraint& c : graph.constraints()) {
    result.assumptions.push_back(fmt::format(
        "{} {} {}", c.left.text(), c.kind == Constraint::Kind::equal ? "==" : "<=", c.right.text()));
  }
  return result;
}

void check(const Inferred& inferred, std::string_view type,
           const std::vector<std::string>& assumptions = {}) {
  EXPECT(inferred.type == type);
  EXPECT(fmt::format("{}", fmt::join(inferred.assumptions, "; ")) ==
         fmt::format("{}", fmt::join(assumptions, "; ")));
}

Type f32(Shape shape) { return {DType::f32, std::move(shape)}; }

TEST_CASE("maps: one shape") {
  check(infer(Primitive::add, {f32({N, 2}), f32({N, 2})}, {}), "f32[N, 2]");
  check(infer(Primitive::add, {f32({N}), f32({M})}, {}), "f32[N]", {"N == M"});
  check(infer(Primitive::add, {f32({2}), f32({1})}, {}), "prim.add: sizes of axis 0 differ: 2 and 1");
  check(infer(Primitive::add, {f32({2}), f32({2, 1})}, {}), "prim.add: operands f32[2] and f32[2, 1] differ");
  check(infer(Primitive::equal, {f32({N}), f32({N})}, {}), "bool[N]");
  check(infer(Primitive::convert, {f32({N})}, {{"dtype", DType::u8}}), "u8[N]");
  check(infer(Primitive::convert, {f32({N})}, {}), "prim.convert: attribute 'dtype' is missing");
  check(infer(Primitive::exp, {{DType::i32, {2}}}, {}), "prim.exp: input 'x' cannot be i32");
}

TEST_CASE("dims: i32 or i64") {
  check(infer(Primitive::dims, {}, {{"elements", Shape{N, 2}}, {"dtype", DType::i32}}), "i32[2]");
  check(infer(Primitive::dims, {}, {{"elements", Shape{N}}, {"dtype", DType::u8}}),
        "prim.dims: dtype u8 is neither i32 nor i64");
  check(infer(Primitive::dims, {}, {{"elements", Shape{Dim::invalid()}}, {"dtype", DType::i64}}),
        "prim.dims: an element is not an integer of 64 bits");
}

TEST_CASE("reshape: as many elements, no negative size") {
  check(infer(Primitive::reshape, {f32({N, 6})}, {{"shape", Shape{N, 2, 3}}}), "f32[N, 2, 3]");
  check(infer(Primitive::reshape, {f32({N, 6})}, {{"shape", Shape{M}}}), "f32[M]", {"6*N == M"});
  check(infer(Primitive::reshape, {f32({4})}, {{"shape", Shape{3}}}),
        "prim.reshape: element counts of [4] and [3] differ: 4 and 3");
  check(infer(Primitive::reshape, {f32({1})}, {{"shape", Shape{-1}}}),
        "prim.reshape: [-1] is not a shape: sizes are 0 … 2^63-1");
  check(infer(Primitive::reshape, {f32({N - 5})}, {{"shape", Shape{N - 5, 1}}}), "f32[N - 5, 1]",
        {"0 <= N - 5"});
}

TEST_CASE("transpose: a permutation") {
  check(infer(Primitive::transpose, {f32({N, 2, 3})}, {{"permutation", Ints{2, 0, 1}}}), "f32[3, N, 2]");
  check(infer(Primitive::transpose, {f32({N, 2})}, {{"permutation", Ints{0}}}),
        "prim.transpose: 1 axes permuted for a tensor of 2");
  check(infer(Primitive::transpose, {f32({N, 2})}, {{"permutation", Ints{1, 1}}}),
        "prim.transpose: axis 1 stands twice");
  check(infer(Primitive::transpose, {f32({N, 2})}, {{"permutation", Ints{0, 2}}}),
        "prim.transpose: axis 2 is out of range for 2 axes");
}

TEST_CASE("broadcast: ones stretch, ranks are equal") {
  check(infer(Primitive::broadcast, {f32({1, N})}, {{"shape", Shape{M, N}}}), "f32[M, N]");
  check(infer(Primitive::broadcast, {f32({N})}, {{"shape", Shape{M}}}), "f32[M]", {"N == M"});
  check(infer(Primitive::broadcast, {f32({2})}, {{"shape", Shape{3}}}),
        "prim.broadcast: sizes of axis 0 differ: 2 and 3");
  check(infer(Primitive::broadcast, {f32({2})}, {{"shape", Shape{1, 2}}}),
        "prim.broadcast: [2] to [1, 2]: ranks differ");
  check(infer(Primitive::broadcast, {f32({1})}, {{"shape", Shape{N - 2}}}), "f32[N - 2]", {"0 <= N - 2"});
}

TEST_CASE("slice: inside of the axis") {
  const auto slice = [](const Dim& from, const Dim& start, const Dim& size, std::int64_t step) {
    return infer(Primitive::slice, {f32({from})},
                 {{"start", Shape{start}}, {"size", Shape{size}}, {"step", Ints{step}}});
  };
  check(slice(10, 2, 4, 2), "f32[4]");
  check(slice(10, 9, 10, -1), "f32[10]");
  check(slice(10, 2, 5, 2), "prim.slice: last element of axis 0: 11 is more than 10");
  check(slice(10, 2, 4, -1), "prim.slice: first element of axis 0: 0 is more than -1");
  check(slice(10, 0, 1, 0), "prim.slice: a step of 0");
  check(slice(N, N - 1, 1, -1), "f32[1]", {"0 <= N - 1"});
  check(slice(N, 0, 3, 1), "f32[3]", {"3 <= N"});
  check(slice(N, 0, N - 2, 1), "f32[N - 2]", {"0 <= N - 2"});
  check(slice(10, 100, 0, 1), "f32[0]");
  check(infer(Primitive::slice, {f32({N, 2})}, {{"start", Shape{0}}, {"size", Shape{1}}, {"step", Ints{1}}}),
        "prim.slice: start, size and step need one entry for each of 2 axes");
}

TEST_CASE("concatenate: equal but for the axis") {
  check(infer(Primitive::concatenate, {f32({N, 2}), f32({N, 3})}, {{"axis", std::int64_t{1}}}), "f32[N, 5]");
  check(infer(Primitive::concatenate, {f32({N, 2}), f32({3, M})}, {{"axis", std::int64_t{0}}}),
        "f32[N + 3, 2]", {"2 == M"});
  check(infer(Primitive::concatenate, {f32({1, 2}), f32({1, 3})}, {{"axis", std::int64_t{0}}}),
        "prim.concatenate: sizes of axis 1 differ: 2 and 3");
  check(infer(Primitive::concatenate, {f32({1})}, {{"axis", std::int64_t{-1}}}),
        "prim.concatenate: axis -1 is out of range for 1 axes");
}

TEST_CASE("reduce: axes and kind") {
  check(infer(Primitive::reduce, {f32({N, 2, M})}, {{"axes", Ints{0, 2}}, {"kind", std::string("sum")}}),
        "f32[2]");
  check(infer(Primitive::reduce, {f32({N})}, {{"axes", Ints{1}}, {"kind", std::string("sum")}}),
        "prim.reduce: axis 1 is out of range for 1 axes");
  check(infer(Primitive::reduce, {f32({N})}, {{"axes", Ints{0}}, {"kind", std::string("mean")}}),
        "prim.reduce: kind must be sum, product, min or max");
}

TEST_CASE("dot_general: dimension numbers") {
  const auto dot = [](Shape a, Shape b, const Ints& lhs_batch, const Ints& rhs_batch, const Ints& lhs,
                      const Ints& rhs) {
    return infer(Primitive::dot_general, {f32(std::move(a)), f32(std::move(b))},
                 {{"lhs_batch", lhs_batch},
                  {"rhs_batch", rhs_batch},
                  {"lhs_contracting", lhs},
                  {"rhs_contracting", rhs}});
  };
  check(dot({N, 2, 3}, {3, N, 4}, {0}, {1}, {2}, {0}), "f32[N, 2, 4]");
  check(dot({2, N}, {M, 4}, {}, {}, {1}, {0}), "f32[2, 4]", {"N == M"});
  check(dot({2, 3}, {4, 5}, {}, {}, {1}, {0}), "prim.dot_general: contracted sizes differ: 3 and 4");
  check(dot({2, 3}, {3, 3}, {0}, {0}, {1}, {1}), "prim.dot_general: batch sizes differ: 2 and 3");
  check(dot({2, 3}, {3, 5}, {}, {}, {1}, {}),
        "prim.dot_general: both sides need equally many batch and contracting axes");
  check(dot({2, 3}, {3, 5}, {1}, {0}, {1}, {0}), "prim.dot_general: axis of the left side 1 stands twice");
}

TEST_CASE("convolution: geometry") {
  const auto conv = [](Shape x, Shape w, std::int64_t stride, std::int64_t dilation, std::int64_t low,
                       std::int64_t high, std::int64_t groups) {
    return infer(Primitive::convolution, {f32(std::move(x)), f32(std::move(w))},
                 {{"strides", Ints{stride}},
                  {"dilations", Ints{dilation}},
                  {"pads_low", Shape{low}},
                  {"pads_high", Shape{high}},
                  {"groups", groups}});
  };
  check(conv({N, 4, 10}, {6, 2, 3}, 2, 2, 1, 0, 2), "f32[N, 6, 4]");
  check(conv({1, 1, N}, {1, 1, 3}, 1, 1, 0, 0, 1), "f32[1, 1, N - 2]", {"3 <= N"});
  check(conv({1, N, 9}, {1, 2, 3}, 1, 1, 0, 0, 1), "f32[1, 1, 7]", {"N == 2"});
  check(conv({1, 3, 9}, {1, 2, 3}, 1, 1, 0, 0, 1),
        "prim.convolution: channels of x and of w · groups differ: 3 and 2");
  check(conv({1, 2, 9}, {3, 1, 3}, 1, 1, 0, 0, 2), "prim.convolution: filters modulo groups differ: 1 and 0");
  check(conv({1, 1, 2}, {1, 1, 3}, 1, 1, 0, 0, 1),
        "prim.convolution: kernel size of spatial axis 0: 3 is more than 2");
  check(conv({1, 1, 9}, {1, 1, 3}, 0, 1, 0, 0, 1), "prim.convolution: strides and dilations are at least 1");
  check(conv({1, 1, 9}, {1, 1, 3}, 1, 1, 0, 0, 0), "prim.convolution: groups must be at least 1");
  check(conv({1, 1}, {1, 1, 3}, 1, 1, 0, 0, 1),
        "prim.convolution: x f32[1, 1], w f32[1, 1, 3] and 1 spatial axes do not fit");
}

// --- contents

struct Contents {
  Graph graph;
  Builder b{graph};
  ValueId shape = b.dims({N, 3, M});

  std::string of(ValueId id) {
    if (!b.ok()) return b.status().error().message;
    const auto elements = b.contents(id);
    return elements ? text_of(*elements) : "unknown";
  }
  ValueId number(std::int64_t value, DType dtype = DType::i64) {
    return b.reshape(b.scalar(dtype, static_cast<double>(value)), {1});
  }
};

TEST_CASE("contents: a chain of slice, arithmetic, concatenate, convert and reshape stays exact") {
  Contents c;
  const ValueId n = c.b.slice(c.shape, {0}, {1}, {1}), tail = c.b.slice(c.shape, {2}, {2}, {-1});
  EXPECT(c.of(n) == "[N]");
  EXPECT(c.of(tail) == "[M, 3]");
  const ValueId half = c.b.divide(c.b.add(n, c.number(1)), c.number(2));
  EXPECT(c.of(half) == "[(N + 1) floordiv 2]");
  const ValueId all = c.b.concatenate({c.b.multiply(n, c.number(2)), half, tail}, 0);
  EXPECT(c.of(all) == "[2*N, (N + 1) floordiv 2, M, 3]");
  EXPECT(c.of(c.b.reshape(all, {2, 2})) == "[2*N, (N + 1) floordiv 2, M, 3]");
  EXPECT(c.of(c.b.broadcast(n, {3})) == "[N, N, N]");
  EXPECT(c.of(c.b.maximum(n, c.number(5))) == "[max(N, 5)]");
  EXPECT(c.of(c.b.subtract(n, c.number(5))) == "[N - 5]");
  EXPECT(c.graph.constraints().empty());
}

TEST_CASE("contents: a narrower integer holds them while they fit, which is recorded") {
  Contents c;
  const ValueId narrow = c.b.convert(c.shape, DType::i32);
  EXPECT(c.of(narrow) == "[N, 3, M]");
  REQUIRE(c.graph.constraints().size() == 2);
  EXPECT(c.graph.constraints()[0].left == N);
  EXPECT(c.graph.constraints()[0].right.is(2147483647));
  EXPECT(c.graph.constraints()[0].why == "a size is converted to i32");
  EXPECT(c.of(c.b.convert(c.number(300), DType::u8)) == "unknown");
  EXPECT(c.of(c.b.convert(c.number(-1), DType::u32)) == "unknown");
  EXPECT(c.of(c.b.convert(c.number(-128), DType::i8)) == "[-128]");
}

TEST_CASE("contents: unknown where the data would wrap, truncate otherwise, or is no integer") {
  Contents c;
  EXPECT(c.of(c.b.subtract(c.number(3, DType::u8), c.number(5, DType::u8))) == "unknown");
  EXPECT(c.of(c.b.add(c.number(200, DType::u8), c.number(100, DType::u8))) == "unknown");
  EXPECT(c.of(c.b.add(c.number(-100, DType::i8), c.number(-100, DType::i8))) == "unknown");
  const ValueId n = c.b.slice(c.shape, {0}, {1}, {1});
  EXPECT(c.of(c.b.divide(c.b.subtract(n, c.number(5)), c.number(2))) == "unknown");
  EXPECT(c.of(c.b.divide(n, n)) == "unknown");
  EXPECT(c.of(c.b.convert(n, DType::f32)) == "unknown");
  EXPECT(c.of(c.b.equal(n, n)) == "[1]");
  const ValueId huge = c.b.constant(HostTensor::of<std::uint64_t>({1}, {1ULL << 63}));
  EXPECT(c.of(huge) == "unknown");
  EXPECT(c.of(c.b.constant(HostTensor::allocate(DType::i64, {257}).value())) == "unknown");
}

}  // namespace
}  // namespace diji
