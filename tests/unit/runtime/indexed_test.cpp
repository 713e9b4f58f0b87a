// Kernels that work by coordinates, on the CPU, against the interpreter: every dtype, odd and empty sizes,
// ties, NaN, indices out of range, any number of threads.
#include "graph/text.h"
#include "runtime/compiler.h"
#include "runtime/session.h"

#include "tests/unit/base/scratch_folder.h"
#include "tests/unit/expect.h"
#include "tests/unit/random_graph.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace diji {
namespace {

const Dim N = Dim::symbol("N"), M = Dim::symbol("M"), P = Dim::symbol("P");

struct Cpu {
  explicit Cpu(int threads = 3) : devices(built_in_plugins(), threads), cache(folder.path()) {
    auto opened = devices.open("cpu");
    REQUIRE_MESSAGE(opened, opened.error().message);
    cpu = *opened;
  }
  std::unique_ptr<ExecutionContext> context(const Graph& graph) {
    auto executable = compile(graph, *cpu, cache, {.verify_each = true});
    REQUIRE_MESSAGE(executable, executable.error().message);
    auto made = ExecutionContext::create(*executable, cpu->default_pool());
    REQUIRE_MESSAGE(made, made.error().message);
    return std::move(*made);
  }
  DeviceList devices;
  test::ScratchFolder folder;
  CompileCache cache;
  Device* cpu = nullptr;
};

// Few different values, so that there are ties; floats have NaN, both zeros and both infinities too.
HostTensor keys(DType dtype, StaticShape shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  HostTensor tensor = HostTensor::allocate(dtype, std::move(shape)).value();
  const auto below = [&](std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random);
  };
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (T& value : tensor.mutable_values<T>()) {
      if constexpr (std::is_same_v<T, bool>) {
        value = below(2) == 0;
      } else if constexpr (std::is_integral_v<T>) {
        using Limits = std::numeric_limits<T>;
        const std::int64_t kind = below(8);
        value = kind == 0 ? Limits::min() : kind == 1 ? Limits::max() : static_cast<T>(below(5));
      } else {
        constexpr double kSpecial[] = {0.0, -0.0, HUGE_VAL, -HUGE_VAL};
        const std::int64_t kind = below(12);
        value = static_cast<T>(kind == 0  ? std::nan("")
                               : kind < 5 ? kSpecial[kind - 1]
                                          : static_cast<double>(below(7) - 3) / 2);
      }
    }
  });
  return tensor;
}

HostTensor indices(StaticShape shape, std::int64_t limit, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  HostTensor tensor = HostTensor::allocate(DType::i64, std::move(shape)).value();
  for (std::int64_t& value : tensor.mutable_values<std::int64_t>())
    value = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  return tensor;
}

struct Case {
  Graph graph{};
  Builder b{graph};
  ValueId x = ValueId::none;
  explicit Case(DType dtype) { x = graph.add_input("x", {dtype, {N, M}}); }
  void output(ValueId id) { graph.add_output(fmt::format("{}", graph.outputs().size()), id); }
  void done() { REQUIRE_MESSAGE(b.status(), b.status().error().message); }
};

void check_outputs(Cpu& cpu, const Graph& graph,
                   const std::function<std::vector<HostTensor>(std::int64_t, std::int64_t)>& feed,
                   const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes) {
  CAPTURE(print(graph));
  const auto context = cpu.context(graph);
  for (const auto& [n, m] : sizes) {
    CAPTURE(n);
    CAPTURE(m);
    const auto inputs = feed(n, m);
    const auto truth = interpret_with_bounds(graph, inputs);
    REQUIRE_MESSAGE(truth, truth.error().message);
    const auto got = context->run(inputs);
    REQUIRE_MESSAGE(got, got.error().message);
    for (std::size_t i = 0; i < got->size(); ++i) {
      CAPTURE(i);
      EXPECT(test::difference((*got)[i], (*truth)[i]) == "");
    }
  }
}

void for_each_dtype(const std::function<void(DType)>& body) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CAPTURE(name_of(dtype));
    body(dtype);
  }
}

using Sizes = std::vector<std::pair<std::int64_t, std::int64_t>>;
const Sizes kSizes = {{0, 3}, {3, 0}, {1, 1}, {2, 17}, {17, 2}, {16, 16}, {7, 100}, {100, 7}};
const Sizes kNotEmpty = {{1, 1}, {2, 17}, {17, 2}, {16, 16}, {7, 100}, {100, 7}, {33, 1}, {1, 33}};

TEST_CASE("arg_reduce of every dtype: ties, NaN, first and last") {
  Cpu cpu;
  for_each_dtype([&](DType dtype) {
    Case c(dtype);
    for (const std::int64_t axis : {0, 1}) {
      for (const bool last : {false, true}) {
        c.output(c.b.arg_reduce(c.x, Reduction::max, axis, last));
        c.output(c.b.arg_reduce(c.x, Reduction::min, axis, last));
      }
    }
    c.output(c.b.arg_reduce(c.b.reshape(c.x, {1, N, M}), Reduction::max, 0));
    c.done();
    check_outputs(
        cpu, c.graph, [&](auto n, auto m) { return std::vector{keys(dtype, {n, m}, 7)}; }, kNotEmpty);
  });
}

TEST_CASE("sort_indices of every dtype: stable both ways, NaN above everything") {
  Cpu cpu;
  for_each_dtype([&](DType dtype) {
    Case c(dtype);
    for (const std::int64_t axis : {0, 1}) {
      c.output(c.b.sort_indices(c.x, axis, false));
      c.output(c.b.sort_indices(c.x, axis, true));
    }
    c.done();
    check_outputs(cpu, c.graph, [&](auto n, auto m) { return std::vector{keys(dtype, {n, m}, 11)}; }, kSizes);
  });
}

TEST_CASE("reductions and scans of every dtype") {
  Cpu cpu;
  for_each_dtype([&](DType dtype) {
    if (dtype == DType::boolean) return;
    Case c(dtype);
    for (const Reduction reduction : {Reduction::sum, Reduction::product, Reduction::min, Reduction::max}) {
      for (const std::int64_t axis : {0, 1}) c.output(c.b.reduce(c.x, reduction, {axis}));
    }
    for (const Reduction reduction : {Reduction::sum, Reduction::product}) {
      c.output(c.b.prefix_scan(c.x, reduction, 0, false, false));
      c.output(c.b.prefix_scan(c.x, reduction, 1, true, false));
      c.output(c.b.prefix_scan(c.x, reduction, 0, true, true));
      c.output(c.b.prefix_scan(c.x, reduction, 1, false, true));
    }
    c.done();
    check_outputs(cpu, c.graph, [&](auto n, auto m) { return std::vector{keys(dtype, {n, m}, 13)}; }, kSizes);
  });
}

TEST_CASE("gathers of every dtype: by data, by rows, windows, paddings") {
  Cpu cpu;
  for_each_dtype([&](DType dtype) {
    Case c(dtype);
    Builder& b = c.b;
    const ValueId i = c.graph.add_input("i", {DType::i64, {P}}),
                  j = c.graph.add_input("j", {DType::i32, {P}});
    const ValueId row = b.reshape(i, {P, 1});
    const auto number = [&](double value) { return b.scalar(DType::i64, value); };
    c.output(b.gather(c.x, {i, j}));
    c.output(b.gather(c.x, {b.add(i, number(-2)), b.subtract(j, b.scalar(DType::i32, 2))}, true));
    c.output(b.gather(c.x, {row, b.iota({P, M}, 1)}));                                          // rows
    c.output(b.gather(c.x, {b.iota({N, P}, 0), b.reshape(b.convert(j, DType::i64), {1, P})}));  // columns
    // Padded by 2 and 3; a window of stride 2; backwards; the transposed one.
    const Shape wide = {N + 5, M + 4};
    c.output(b.gather(c.x, {b.subtract(b.iota(wide, 0), number(2)), b.subtract(b.iota(wide, 1), number(3))},
                      true));
    c.output(b.gather(
        c.x, {b.iota({N, 3, M}, 0), b.add(b.multiply(b.iota({N, 3, M}, 2), number(2)), b.iota({N, 3, M}, 1))},
        true));
    const ValueId size = b.reshape(b.dims({M}), {});
    c.output(b.gather(c.x, {b.iota({N, M}, 0), b.subtract(b.subtract(size, number(1)), b.iota({N, M}, 1))}));
    c.output(b.gather(b.transpose(c.x, {1, 0}), {b.iota({M, N}, 0), b.iota({M, N}, 1)}));
    c.done();
    check_outputs(
        cpu, c.graph,
        [&](auto n, auto m) {
          HostTensor second = HostTensor::allocate(DType::i32, {5}).value();
          for (auto& value : second.mutable_values<std::int32_t>()) value = static_cast<std::int32_t>(m / 2);
          return std::vector{keys(dtype, {n, m}, 17), indices({5}, n, 19), second};
        },
        kNotEmpty);
  });
}

TEST_CASE("scatters of every dtype: in order where they meet, side by side where they cannot") {
  Cpu cpu;
  for_each_dtype([&](DType dtype) {
    Case c(dtype);
    Builder& b = c.b;
    const ValueId i = c.graph.add_input("i", {DType::i64, {P}}),
                  j = c.graph.add_input("j", {DType::i64, {P}});
    const ValueId one = c.graph.add_input("u", {dtype, {P}}), rows = c.graph.add_input("v", {dtype, {P, M}});
    const ValueId columns = c.graph.add_input("w", {dtype, {N, P}});
    for (const Update update :
         {Update::set, Update::add, Update::multiply, Update::minimum, Update::maximum}) {
      if (dtype == DType::boolean && update != Update::set) continue;
      c.output(b.scatter(c.x, one, {i, j}, update));
      c.output(b.scatter(c.x, rows, {b.reshape(i, {P, 1}), b.iota({P, M}, 1)}, update));
      c.output(b.scatter(c.x, columns, {b.iota({N, P}, 0), b.reshape(j, {1, P})}, update));
    }
    c.done();
    check_outputs(
        cpu, c.graph,
        [&](auto n, auto m) {
          return std::vector{keys(dtype, {n, m}, 23), indices({9}, n, 29),     indices({9}, m, 31),
                             keys(dtype, {9}, 37),    keys(dtype, {9, m}, 41), keys(dtype, {n, 9}, 43)};
        },
        kNotEmpty);
  });
}

TEST_CASE("coordinates as numbers of every dtype") {
  Cpu cpu;
  Case c(DType::f32);
  for_each_dtype([&](DType dtype) {
    if (dtype == DType::boolean) return;
    c.output(c.b.iota({N, M}, 0, dtype));
    c.output(c.b.iota({N, M}, 1, dtype));
  });
  c.output(c.b.add(c.x, c.b.iota({N, M}, 1, DType::f32)));
  c.done();
  Sizes sizes = kSizes;
  sizes.emplace_back(2, 5000);  // beyond what i8 and the mantissas of 16-bit floats hold
  check_outputs(
      cpu, c.graph, [&](auto n, auto m) { return std::vector{keys(DType::f32, {n, m}, 3)}; }, sizes);
}

// The error of a run whose index tensor holds `index` at place `at` of 40, the others 0.
std::string error_of(Cpu& cpu, bool scatter, std::int64_t index, std::int64_t at, std::int64_t size = 20) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::f32, {N}}), i = graph.add_input("i", {DType::i64, {P}});
  const ValueId updates = graph.add_input("u", {DType::f32, {P}});
  graph.add_output("y", scatter ? b.scatter(x, updates, {i}, Update::set) : b.gather(b.exp(x), {i}));
  HostTensor where = HostTensor::allocate(DType::i64, {40}).value();
  where.mutable_values<std::int64_t>()[static_cast<std::size_t>(at)] = index;
  const auto got =
      cpu.context(graph)->run(std::vector{keys(DType::f32, {size}, 1), where, keys(DType::f32, {40}, 2)});
  if (!got) EXPECT(got.error().code == ErrorCode::data);
  return got ? "" : got.error().message;
}

TEST_CASE("an index out of range is an error, wherever it stands") {
  Cpu cpu;
  for (const bool scatter : {false, true}) {
    CAPTURE(scatter);
    for (const std::int64_t at : {0, 17, 39}) {
      EXPECT(error_of(cpu, scatter, 19, at) == "");
      EXPECT(error_of(cpu, scatter, 20, at).contains("out of range"));
      EXPECT(error_of(cpu, scatter, -1, at).contains("out of range"));
      EXPECT(error_of(cpu, scatter, std::numeric_limits<std::int64_t>::min(), at).contains("out of range"));
    }
    EXPECT(error_of(cpu, scatter, 0, 0, 0).contains("out of range"));
  }
}

TEST_CASE("a coordinate beyond a size that only a run tells is an error too") {
  Cpu cpu;
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::f32, {N}}), y = graph.add_input("y", {DType::f32, {M}});
  graph.add_output("z", b.add(y, b.gather(x, {b.iota({M}, 0)})));
  const auto context = cpu.context(graph);
  const auto run = [&](std::int64_t n, std::int64_t m) {
    const auto got = context->run(std::vector{keys(DType::f32, {n}, 1), keys(DType::f32, {m}, 2)});
    return got ? "" : got.error().message;
  };
  EXPECT(run(20, 20) == "");
  EXPECT(run(20, 0) == "");
  EXPECT(run(0, 0) == "");
  EXPECT(run(20, 21).contains("out of range"));
  EXPECT(run(0, 1).contains("out of range"));
}

TEST_CASE("the same bits for any number of threads") {
  Case c(DType::f32);
  const ValueId i = c.graph.add_input("i", {DType::i64, {P}});
  const ValueId rows = c.graph.add_input("v", {DType::f32, {P, M}});
  c.output(c.b.scatter(c.x, rows, {c.b.reshape(i, {P, 1}), c.b.iota({P, M}, 1)}, Update::add));
  c.output(c.b.prefix_scan(c.x, Reduction::sum, 0, false, false));
  c.output(c.b.sort_indices(c.x, 1, true));
  c.output(c.b.arg_reduce(c.x, Reduction::max, 1));
  c.output(c.b.reduce(c.x, Reduction::product, {0}));
  c.done();
  const std::vector<HostTensor> inputs = {keys(DType::f32, {50, 200}, 5), indices({300}, 50, 6),
                                          keys(DType::f32, {300, 200}, 8)};
  std::vector<HostTensor> first;
  for (const int threads : {1, 2, 7}) {
    Cpu cpu(threads);
    auto got = cpu.context(c.graph)->run(inputs);
    REQUIRE(got);
    if (first.empty()) first = *got;
    for (std::size_t k = 0; k < first.size(); ++k) EXPECT((*got)[k].same_bits(first[k]));
  }
}

}  // namespace
}  // namespace diji
