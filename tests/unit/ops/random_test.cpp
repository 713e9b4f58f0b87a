// The numbers that operators draw against philox4x32 on the host.
#include "ops/random_numbers.h"

#include "base/philox.h"
#include "graph/interpreter.h"
#include "tests/unit/expect.h"

namespace diji {
namespace {

std::vector<HostTensor> interpreted(const Graph& graph, std::vector<HostTensor> inputs) {
  auto outputs = interpret(graph, inputs, Arithmetic::oracle);
  REQUIRE(outputs.has_value());
  return *std::move(outputs);
}

}  // namespace

TEST_CASE("uniform numbers are words of Philox by position, stream and key") {
  const std::uint64_t stream = 0xfedcba9876543210;
  Graph graph;
  const ValueId key = graph.add_input("key", {DType::u64, {}});
  Builder b(graph);
  for (const DType dtype : {DType::f32, DType::f64}) {
    graph.add_output(std::string(name_of(dtype)),
                     uniform_numbers(b, {Dim(3), Dim(5)}, dtype, key, static_cast<std::int64_t>(stream)));
  }
  REQUIRE(b.status().has_value());
  const HostTensor given = random_key(42, 7);
  const std::uint64_t number = given.values<std::uint64_t>()[0];
  const auto outputs = interpreted(graph, {given});
  for (std::uint32_t i = 0; i < 15; ++i) {
    const auto words = philox4x32({i, 0, 0x76543210, 0xfedcba98}, {static_cast<std::uint32_t>(number),
                                                                   static_cast<std::uint32_t>(number >> 32)});
    const double short_number = (words[0] >> 8) * 0x1p-24;
    const double long_number =
        static_cast<double>((std::uint64_t{words[0] >> 5} << 26) | words[1] >> 6) * 0x1p-53;
    EXPECT(outputs[0].as_double(i) == short_number);
    EXPECT(outputs[1].as_double(i) == long_number);
  }
}

TEST_CASE("an iteration's key is Philox of its number, under the run's key") {
  Graph graph;
  const ValueId key = graph.add_input("key", {DType::u64, {}}),
                number = graph.add_input("n", {DType::i64, {}});
  Builder b(graph);
  graph.add_output("folded", fold_in(b, key, number));
  const auto outputs = interpreted(graph, {HostTensor::of<std::uint64_t>({}, {0x0000000200000001}),
                                           HostTensor::of<std::int64_t>({}, {(std::int64_t{5} << 32) + 4})});
  const auto words = philox4x32({4, 5, 0, 0xffffffff}, {1, 2});
  EXPECT(outputs[0].values<std::uint64_t>()[0] == (words[0] | std::uint64_t{words[1]} << 32));
}

}  // namespace diji
