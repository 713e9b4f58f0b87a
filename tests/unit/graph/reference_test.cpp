// What each primitive means, against values worked out by hand.
#include "graph/reference.h"

#include "graph/builder.h"
#include "graph/interpreter.h"

#include "tests/unit/expect.h"

#include <cmath>
#include <functional>
#include <limits>

namespace diji {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The typed result of one formula over constants.
Result<HostTensor> value_of(const std::function<ValueId(Builder&)>& formula) {
  Graph graph;
  Builder b(graph);
  const ValueId y = formula(b);
  TRY(b.status());
  graph.add_output("y", y);
  auto outputs = TRY(interpret(graph, {}, Arithmetic::typed));
  return std::move(outputs[0]);
}

std::string text_of_value(const Result<HostTensor>& value) {
  if (!value) return value.error().message;
  std::vector<std::string> elements;
  for (std::int64_t i = 0; i < value->count(); ++i) {
    elements.push_back(is_floating(value->dtype())
                           ? fmt::format("{}", value->as_double(i))
                           : fmt::format("{}", value->as_int64()[static_cast<std::size_t>(i)]));
  }
  return fmt::format("{}{} {}", name_of(value->dtype()), text_of(value->shape()), fmt::join(elements, " "));
}

template <typename T>
ValueId vector(Builder& b, std::initializer_list<T> values) {
  return b.constant(HostTensor::of<T>({std::ssize(values)}, values));
}
template <typename T>
ValueId matrix(Builder& b, std::int64_t rows, std::initializer_list<T> values) {
  return b.constant(HostTensor::of<T>({rows, std::ssize(values) / rows}, values));
}

template <typename T>
std::string binary(Primitive primitive, T a, T b) {
  return text_of_value(value_of([&](Builder& builder) {
    return builder.map(primitive, {vector<T>(builder, {a}), vector<T>(builder, {b})});
  }));
}

TEST_CASE("integers wrap to their width") {
  EXPECT(binary<std::int8_t>(Primitive::add, 127, 1) == "i8[1] -128");
  EXPECT(binary<std::uint8_t>(Primitive::subtract, 0, 1) == "u8[1] 255");
  EXPECT(binary<std::int16_t>(Primitive::multiply, 256, 256) == "i16[1] 0");
  EXPECT(binary<std::int32_t>(Primitive::multiply, 1 << 30, 4) == "i32[1] 0");
  EXPECT(binary<std::int64_t>(Primitive::add, std::numeric_limits<std::int64_t>::max(), 1) ==
         "i64[1] -9223372036854775808");
  EXPECT(binary<std::uint64_t>(Primitive::maximum, std::numeric_limits<std::uint64_t>::max(), 5) ==
         "u64[1] -1");  // printed as int64
}

TEST_CASE("integer division truncates, wraps at the minimum, and has no zero divisor") {
  EXPECT(binary<std::int32_t>(Primitive::divide, -7, 2) == "i32[1] -3");
  EXPECT(binary<std::int8_t>(Primitive::divide, -128, -1) == "i8[1] -128");
  EXPECT(binary<std::int64_t>(Primitive::divide, std::numeric_limits<std::int64_t>::min(), -1) ==
         "i64[1] -9223372036854775808");
  EXPECT(binary<std::uint8_t>(Primitive::divide, 255, 2) == "u8[1] 127");
  EXPECT(binary<std::int32_t>(Primitive::divide, 1, 0) == "prim.divide: integer division by zero");
}

TEST_CASE("floats keep IEEE's special values") {
  EXPECT(binary<float>(Primitive::divide, 1, 0) == "f32[1] inf");
  EXPECT(binary<float>(Primitive::divide, -1, 0) == "f32[1] -inf");
  EXPECT(binary<float>(Primitive::maximum, -0.0F, 0.0F) == "f32[1] 0");
  EXPECT(binary<float>(Primitive::maximum, 0.0F, -0.0F) == "f32[1] 0");
  EXPECT(binary<float>(Primitive::maximum, -0.0F, -0.0F) == "f32[1] -0");
  EXPECT(binary<double>(Primitive::maximum, std::nan(""), kInfinity) == "f64[1] nan");
  EXPECT(binary<double>(Primitive::equal, std::nan(""), std::nan("")) == "bool[1] 0");
  EXPECT(binary<double>(Primitive::equal, 0.0, -0.0) == "bool[1] 1");
  EXPECT(binary<std::uint64_t>(Primitive::equal, 1ULL << 63, (1ULL << 63) + 1) == "bool[1] 0");
  const auto special = value_of([](Builder& b) { return b.sqrt(vector<double>(b, {4, -1, 0, kInfinity})); });
  EXPECT(special->as_double(0) == 2);
  EXPECT(std::isnan(special->as_double(1)));
  EXPECT(special->as_double(3) == kInfinity);
}

template <typename T>
std::string converted(DType to, std::initializer_list<T> values) {
  return text_of_value(value_of([&](Builder& b) { return b.convert(vector<T>(b, values), to); }));
}

TEST_CASE("floats to integers truncate and saturate, NaN gives 0") {
  EXPECT(converted<float>(DType::i8, {-1.9F, 127.9F, 128, -129, 1e30F, std::nanf("")}) ==
         "i8[6] -1 127 127 -128 127 0");
  EXPECT(converted<float>(DType::u8, {-0.5F, -1, 255.9F, 256, -1e30F, std::nanf("")}) ==
         "u8[6] 0 0 255 255 0 0");
  EXPECT(converted<double>(DType::i64, {0x1p63, -0x1p63, 0x1p62}) ==
         "i64[3] 9223372036854775807 -9223372036854775808 4611686018427387904");
  EXPECT(converted<double>(DType::u64, {0x1p64, -1}) == "u64[2] -1 0");
  EXPECT(converted<double>(DType::boolean, {0, -0.0, 0.1, std::nan("")}) == "bool[4] 0 0 1 1");
}

TEST_CASE("integers to integers wrap, sign extended") {
  EXPECT(converted<std::int32_t>(DType::u8, {-1, 256, 257}) == "u8[3] 255 0 1");
  EXPECT(converted<std::int8_t>(DType::u32, {-1}) == "u32[1] 4294967295");
  EXPECT(converted<bool>(DType::f16, {true, false}) == "f16[2] 1 0");
}

TEST_CASE("wide integers round to floats once, to nearest even") {
  constexpr std::int64_t kOne = 1;
  EXPECT(value_of([](Builder& b) {
           return b.convert(vector<std::int64_t>(b, {(kOne << 53) + 1}), DType::f64);
         })->as_double(0) == 0x1p53);
  EXPECT(value_of([](Builder& b) {
           return b.convert(vector<std::int64_t>(b, {-(kOne << 60) - 1}), DType::f64);
         })->as_double(0) == -0x1p60);
  EXPECT(value_of([](Builder& b) {
           return b.convert(vector<std::uint64_t>(b, {~std::uint64_t{0}}), DType::f64);
         })->as_double(0) == 0x1p64);
  // One above the halfway point of f32 (24 bits) and of bf16 (8 bits): up, though the double in between is
  // the tie.
  EXPECT(value_of([](Builder& b) {
           return b.convert(vector<std::int64_t>(b, {(kOne << 60) + (kOne << 36) + 1}), DType::f32);
         })->as_double(0) == 0x1p60 + 0x1p37);
  EXPECT(value_of([](Builder& b) {
           return b.convert(vector<std::int64_t>(b, {(kOne << 60) + (kOne << 52) + 1}), DType::bf16);
         })->as_double(0) == 0x1p60 + 0x1p53);
  EXPECT(value_of([](Builder& b) {
           return b.convert(vector<std::int64_t>(b, {-(kOne << 60) - (kOne << 52) - 1}), DType::bf16);
         })->as_double(0) == -0x1p60 - 0x1p53);
  EXPECT(value_of([](Builder& b) {
           return b.convert(vector<std::int64_t>(b, {(kOne << 60) + (kOne << 52)}), DType::bf16);
         })->as_double(0) == 0x1p60);
}

TEST_CASE("views move elements") {
  const auto x = [](Builder& b) { return matrix<std::int32_t>(b, 2, {1, 2, 3, 4, 5, 6}); };
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.reshape(x(b), {3, 2}); })) ==
         "i32[3, 2] 1 2 3 4 5 6");
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.transpose(x(b), {1, 0}); })) ==
         "i32[3, 2] 1 4 2 5 3 6");
  EXPECT(text_of_value(value_of([&](Builder& b) {
           return b.broadcast(vector<std::int32_t>(b, {1, 2}), {2, 2});
         })) == "i32[2, 2] 1 2 1 2");
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.slice(x(b), {1, 2}, {2, 2}, {-1, -2}); })) ==
         "i32[2, 2] 6 4 3 1");
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.slice(x(b), {0, 3}, {2, 0}, {1, 1}); })) ==
         "i32[2, 0] ");
  EXPECT(text_of_value(value_of([&](Builder& b) {
           return b.concatenate({x(b), matrix<std::int32_t>(b, 2, {7, 8})}, 1);
         })) == "i32[2, 4] 1 2 3 7 4 5 6 8");
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.dims({3, Dim(4) * Dim(5)}, DType::i32); })) ==
         "i32[2] 3 20");
}

TEST_CASE("reductions: values, and what stands over nothing") {
  const auto x = [](Builder& b) { return matrix<std::int32_t>(b, 2, {1, 5, 3, 4, 2, 6}); };
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.reduce(x(b), Reduction::sum, {0}); })) ==
         "i32[3] 5 7 9");
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.reduce(x(b), Reduction::max, {1}); })) ==
         "i32[2] 5 6");
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.reduce(x(b), Reduction::sum, {1, 0}); })) ==
         "i32[] 21");
  const auto over_nothing = [](DType dtype, Reduction reduction) {
    return text_of_value(value_of([&](Builder& b) {
      return b.reduce(b.constant(HostTensor::allocate(dtype, {2, 0}).value()), reduction, {1});
    }));
  };
  EXPECT(over_nothing(DType::f16, Reduction::sum) == "f16[2] 0 0");
  EXPECT(over_nothing(DType::f32, Reduction::max) == "f32[2] -inf -inf");
  EXPECT(over_nothing(DType::i16, Reduction::max) == "i16[2] -32768 -32768");
  EXPECT(over_nothing(DType::u64, Reduction::max) == "u64[2] 0 0");
  EXPECT(text_of_value(value_of([](Builder& b) {
           return b.reduce(vector<float>(b, {1, std::nanf(""), 2}), Reduction::max, {0});
         })) == "f32[] nan");
}

TEST_CASE("products and minima, and what stands over nothing") {
  const auto x = [](Builder& b) { return matrix<std::int8_t>(b, 2, {100, 5, 3, 4, -2, 6}); };
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.reduce(x(b), Reduction::product, {0}); })) ==
         "i8[3] -112 -10 18");  // 400 wraps
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.reduce(x(b), Reduction::min, {1}); })) ==
         "i8[2] 3 -2");
  const auto over_nothing = [](DType dtype, Reduction reduction) {
    return text_of_value(value_of([&](Builder& b) {
      return b.reduce(b.constant(HostTensor::allocate(dtype, {1, 0}).value()), reduction, {1});
    }));
  };
  EXPECT(over_nothing(DType::f16, Reduction::product) == "f16[1] 1");
  EXPECT(over_nothing(DType::f32, Reduction::min) == "f32[1] inf");
  EXPECT(over_nothing(DType::i16, Reduction::min) == "i16[1] 32767");
  EXPECT(text_of_value(value_of([](Builder& b) {
           return b.reduce(vector<float>(b, {1, std::nanf(""), 2}), Reduction::min, {0});
         })) == "f32[] nan");
}

TEST_CASE("coordinates, gathers and scatters") {
  const auto x = [](Builder& b) { return matrix<std::int32_t>(b, 2, {1, 2, 3, 4, 5, 6}); };
  const auto i = [](Builder& b, std::initializer_list<std::int64_t> values) {
    return vector<std::int64_t>(b, values);
  };
  EXPECT(text_of_value(value_of([](Builder& b) { return b.iota({2, 3}, 1, DType::u8); })) ==
         "u8[2, 3] 0 1 2 0 1 2");
  EXPECT(text_of_value(value_of([&](Builder& b) {
           return b.gather(x(b), {i(b, {1, 0, 1}), i(b, {2, 0, 0})});
         })) == "i32[3] 6 1 4");
  EXPECT(text_of_value(value_of([&](Builder& b) {
           return b.gather(x(b), {i(b, {2, -1, 1}), i(b, {0, 0, 1})}, true);
         })) == "i32[3] 0 0 5");
  EXPECT(text_of_value(value_of([&](Builder& b) { return b.gather(x(b), {i(b, {2}), i(b, {0})}); })) ==
         "prim.gather: index out of range: 2 on axis 0, which has 2 elements");
  const auto scattered = [&](Update update) {
    return text_of_value(value_of([&](Builder& b) {
      return b.scatter(x(b), vector<std::int32_t>(b, {10, 20, 3}), {i(b, {0, 0, 1}), i(b, {1, 1, 2})},
                       update);
    }));
  };
  EXPECT(scattered(Update::set) == "i32[2, 3] 1 20 3 4 5 3");
  EXPECT(scattered(Update::add) == "i32[2, 3] 1 32 3 4 5 9");
  EXPECT(scattered(Update::multiply) == "i32[2, 3] 1 400 3 4 5 18");
  EXPECT(scattered(Update::minimum) == "i32[2, 3] 1 2 3 4 5 3");
  EXPECT(scattered(Update::maximum) == "i32[2, 3] 1 20 3 4 5 6");
  EXPECT(text_of_value(value_of([&](Builder& b) {
           return b.scatter(x(b), vector<std::int32_t>(b, {1}), {i(b, {-1}), i(b, {0})}, Update::set);
         })).contains("index out of range: -1 on axis 0"));
}

TEST_CASE("arg_reduce, scans, sorting, compaction") {
  const float nan = std::nanf("");
  const auto arg = [&](Reduction kind, bool last, std::initializer_list<float> values) {
    return text_of_value(
        value_of([&](Builder& b) { return b.arg_reduce(vector<float>(b, values), kind, 0, last); }));
  };
  EXPECT(arg(Reduction::max, false, {1, 3, 3, 2}) == "i64[] 1");
  EXPECT(arg(Reduction::max, true, {1, 3, 3, 2}) == "i64[] 2");
  EXPECT(arg(Reduction::min, false, {0.0F, -0.0F, 1}) == "i64[] 0");
  EXPECT(arg(Reduction::min, false, {1, nan, -5, nan}) == "i64[] 1");
  EXPECT(arg(Reduction::max, true, {1, nan, 5, nan, 9}) == "i64[] 3");
  const auto scan = [&](Reduction kind, bool exclusive, bool reverse) {
    return text_of_value(value_of([&](Builder& b) {
      return b.prefix_scan(vector<std::int32_t>(b, {2, 3, 4}), kind, 0, exclusive, reverse);
    }));
  };
  EXPECT(scan(Reduction::sum, false, false) == "i32[3] 2 5 9");
  EXPECT(scan(Reduction::sum, true, false) == "i32[3] 0 2 5");
  EXPECT(scan(Reduction::product, false, true) == "i32[3] 24 12 4");
  EXPECT(scan(Reduction::product, true, true) == "i32[3] 12 4 1");
  const auto sorted = [&](bool descending) {
    return text_of_value(value_of([&](Builder& b) {
      return b.sort_indices(vector<float>(b, {2, nan, 0.0F, 2, -0.0F, nan, -1}), 0, descending);
    }));
  };
  EXPECT(sorted(false) == "i64[7] 6 2 4 0 3 1 5");
  EXPECT(sorted(true) == "i64[7] 1 5 0 3 2 4 6");
  Graph graph;
  Builder b(graph);
  const ValueId mask = graph.add_input("mask", {DType::boolean, {2, 3}});
  graph.add_output("y", b.compact(mask, graph.fresh_symbol()));
  const auto y =
      interpret(graph, std::vector{HostTensor::of<bool>({2, 3}, {false, true, true, false, false, true})},
                Arithmetic::typed);
  REQUIRE_MESSAGE(y, y.error().message);
  EXPECT(text_of_value((*y)[0]) == "i64[3] 1 2 5");
}

TEST_CASE("bytes of any sign sum into i32; integers convolve and wrap") {
  EXPECT(text_of_value(value_of([](Builder& b) {
           return b.dot_general(vector<std::int8_t>(b, {-128, 127}), vector<std::uint8_t>(b, {255, 200}),
                                {.lhs_contracting = {0}, .rhs_contracting = {0}}, DType::i32);
         })) == "i32[] -7240");
  EXPECT(text_of_value(value_of([](Builder& b) {
           ConvolutionDims dims{.strides = {1}, .dilations = {1}, .pads_low = {1}, .pads_high = {0}};
           return b.convolution(b.constant(HostTensor::of<std::int8_t>({1, 1, 3}, {100, 2, 3})),
                                b.constant(HostTensor::of<std::int8_t>({1, 1, 2}, {1, 2})), dims);
         })) == "i8[1, 1, 3] -56 104 8");
}

TEST_CASE("dot_general: batches, free axes, several contracted axes, nothing contracted") {
  const auto ramp = [](Builder& b, StaticShape shape) {
    HostTensor x = HostTensor::allocate(DType::i32, std::move(shape)).value();
    std::int32_t next = 1;
    for (std::int32_t& value : x.mutable_values<std::int32_t>()) value = next++;
    return b.constant(std::move(x));
  };
  const auto dot = [&](StaticShape a, StaticShape c, DotDims dims) {
    return text_of_value(value_of([&](Builder& b) { return b.dot_general(ramp(b, a), ramp(b, c), dims); }));
  };
  EXPECT(dot({2, 2}, {2, 2}, {.lhs_contracting = {1}, .rhs_contracting = {0}}) == "i32[2, 2] 7 10 15 22");
  EXPECT(dot({2, 2}, {2, 2}, {.lhs_contracting = {1}, .rhs_contracting = {1}}) == "i32[2, 2] 5 11 11 25");
  EXPECT(dot({2, 2}, {2, 2},
             {.lhs_batch = {0}, .rhs_batch = {0}, .lhs_contracting = {1}, .rhs_contracting = {1}}) ==
         "i32[2] 5 25");
  EXPECT(dot({2, 2}, {2, 2}, {.lhs_contracting = {0, 1}, .rhs_contracting = {1, 0}}) == "i32[] 29");
  EXPECT(dot({2}, {2}, {}) == "i32[2, 2] 1 2 2 4");
  EXPECT(dot({2, 0}, {0, 1}, {.lhs_contracting = {1}, .rhs_contracting = {0}}) == "i32[2, 1] 0 0");
}

TEST_CASE("convolution: stride, dilation, padding and groups; cells outside are skipped") {
  const auto conv = [](std::initializer_list<float> x, StaticShape x_shape, std::initializer_list<float> w,
                       StaticShape w_shape, ConvolutionDims dims) {
    return text_of_value(value_of([&](Builder& b) {
      return b.convolution(b.constant(HostTensor::of<float>(x_shape, x)),
                           b.constant(HostTensor::of<float>(w_shape, w)), dims);
    }));
  };
  const auto line = [](std::int64_t stride, std::int64_t dilation, std::int64_t low, std::int64_t high) {
    return ConvolutionDims{
        .strides = {stride}, .dilations = {dilation}, .pads_low = {low}, .pads_high = {high}};
  };
  EXPECT(conv({1, 2, 3, 4}, {1, 1, 4}, {1, 10}, {1, 1, 2}, line(1, 1, 0, 0)) == "f32[1, 1, 3] 21 32 43");
  EXPECT(conv({1, 2, 3, 4}, {1, 1, 4}, {1, 10}, {1, 1, 2}, line(2, 1, 0, 0)) == "f32[1, 1, 2] 21 43");
  EXPECT(conv({1, 2, 3, 4}, {1, 1, 4}, {1, 10}, {1, 1, 2}, line(1, 2, 0, 0)) == "f32[1, 1, 2] 31 42");
  EXPECT(conv({1, 2, 3, 4}, {1, 1, 4}, {1, 10}, {1, 1, 2}, line(1, 1, 1, 1)) == "f32[1, 1, 5] 10 21 32 43 4");
  EXPECT(conv({1, 2}, {1, 1, 2}, {HUGE_VALF, 1}, {1, 1, 2}, line(1, 1, 1, 0)) == "f32[1, 1, 2] 1 inf");
  ConvolutionDims groups = line(1, 1, 0, 0);
  groups.groups = 2;
  EXPECT(conv({1, 2}, {1, 2, 1}, {3, 5}, {2, 1, 1}, groups) == "f32[1, 2, 1] 3 10");
}

TEST_CASE("the oracle does not round, the typed interpreter does after each primitive") {
  Graph graph;
  Builder b(graph);
  const ValueId third = b.divide(b.scalar(DType::f16, 1), b.scalar(DType::f16, 3));
  graph.add_output("y", b.multiply(third, b.scalar(DType::f16, 3)));
  EXPECT((*interpret(graph, {}, Arithmetic::oracle))[0].as_double(0) == 1.0 / 3 * 3);
  EXPECT((*interpret(graph, {}, Arithmetic::oracle))[0].dtype() == DType::f64);
  EXPECT((*interpret(graph, {}, Arithmetic::typed))[0].dtype() == DType::f16);
  EXPECT((*interpret(graph, {}, Arithmetic::typed))[0].as_double(0) ==
         static_cast<double>(Float16(static_cast<double>(Float16(1.0 / 3)) * 3)));
}

}  // namespace
}  // namespace diji
