// Measured by diji's own kernels, on the device and the threads at hand.
#include "runtime/limits.h"

#include "graph/builder.h"
#include "ops/catalog.h"
#include "ops/samples.h"
#include "runtime/conformance.h"

#include <algorithm>
#include <chrono>

namespace diji {
namespace {

constexpr std::int64_t kSide = 1024;
// A result may be so many times as large as an operand: a gather by 1024 × 1024 rows has no place here.
constexpr std::int64_t kGrowthMax = 4;

Result<OperatorCase> case_of(const OpDef& op, const Sample& sample) {
  OperatorCase result;
  result.graph.name = std::string(op.name);
  Values operands;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const HostTensor& tensor = sample.inputs[i];
    const Shape shape(tensor.shape().begin(), tensor.shape().end());
    const Type type{tensor.dtype(), shape};
    result.sizes += (i == 0 ? "" : ", ") + text_of(type);
    if (i < sample.constant.size() && sample.constant[i]) {
      operands.push_back(result.graph.add_constant(tensor));
      continue;
    }
    const std::string name = fmt::format("input_{}", i);
    operands.push_back(result.graph.add_input(name, type));
    result.inputs.emplace(name, tensor);
  }
  Builder builder(result.graph);
  const Values outputs = builder.call(op, std::move(operands), sample.attributes);
  TRY(builder.status());
  for (const ValueId id : outputs) {
    if (id != ValueId::none) result.graph.add_output(fmt::format("y{}", result.graph.outputs().size()), id);
  }
  return result;
}

std::int64_t elements_of(const Sample& sample) {
  std::int64_t count = 0;
  for (const HostTensor& tensor : sample.inputs) count += tensor.count();
  return count;
}

bool is_small(const OperatorCase& one) {
  return std::ranges::all_of(one.graph.outputs(), [&](const Port& port) {
    const auto count = element_count(one.graph.type(port.value).shape).constant();
    return count && *count <= kGrowthMax * kSide * kSide;
  });
}

// Empty where operands other than large ones of this dtype are needed.
std::optional<Sample> large_sample(const OpDef& op, DType dtype) {
  Sample sample{.label = "large", .inputs = {}};
  for (const Operand& operand : op.inputs) {
    if (operand.mode == OperandMode::optional) continue;
    if (operand.type != op.inputs[0].type || !contains(operand.dtypes, dtype)) return std::nullopt;
    // Positive: no operator meets what it has no result for.
    for (int copy = operand.mode == OperandMode::variadic ? 2 : 1; copy > 0; --copy) {
      const std::uint64_t seed = 1 + sample.inputs.size();
      sample.inputs.push_back(sample_tensor(dtype, {kSide, kSide}, Fill::positive, seed));
    }
  }
  const bool wants_more = std::ranges::any_of(
      op.attributes, [](const AttributeDef& attribute) { return attribute.default_text.empty(); });
  return sample.inputs.empty() || wants_more ? std::nullopt : std::optional(std::move(sample));
}

Graph copy_graph() {
  Graph graph;
  graph.name = "copy";
  const ValueId x = graph.add_input("x", {DType::f32, {Dim::symbol("N")}});
  Builder builder(graph);
  graph.add_output("y", builder.map(Primitive::absolute, {x}));
  return graph;
}

}  // namespace

Result<double> measure_copy_gbps(Device& device, CompileCache& cache, std::int64_t bytes) {
  constexpr int kRuns = 7;
  const std::int64_t count = std::max<std::int64_t>(bytes / 8, 1);
  const auto executable = TRY(compile(copy_graph(), device, cache, {}));
  MemoryPool pool(device, "copy");
  const auto context = TRY(ExecutionContext::create(executable, pool));
  const std::vector<HostTensor> inputs = {sample_tensor(DType::f32, {count}, Fill::normal, 1)};
  double best = 0;
  for (int i = 0; i <= kRuns; ++i) {
    TRY(context->run(inputs, {.timed = true}));
    const double rate = static_cast<double>(8 * count) / (context->stats().kernels[0].milliseconds * 1e6);
    if (i > 0) best = std::max(best, rate);
  }
  return best;
}

Result<RunWork> work_of(Session& session, const std::map<std::string, HostTensor>& inputs) {
  RunWork work;
  const auto observer = [&](const Observation& seen) -> Result<void> {
    if (seen.step.kind == Step::Kind::sizes) return {};
    work.flops += static_cast<double>(TRY(seen.step.flops.evaluate(seen.bindings)));
    work.bytes += static_cast<double>(TRY(seen.step.bytes.evaluate(seen.bindings)));
    return {};
  };
  TRY(session.run(inputs, nullptr, {.observer = observer}));
  return work;
}

Result<OperatorCase> benchmark_case(const OpDef& op, DType dtype) {
  if (const auto large = large_sample(op, dtype)) {
    auto one = case_of(op, *large);
    if (one && is_small(*one)) return one;
  }
  const std::vector<Sample> samples = samples_of(op, dtype);
  if (samples.empty()) return fail(ErrorCode::unsupported, "{} has no sample of {}", op.name, name_of(dtype));
  return case_of(op, *std::ranges::max_element(samples, {}, elements_of));
}

Result<OperatorCase> matmul_case(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  const Sample sample{.label = "matmul",
                      .inputs = {sample_tensor(dtype, {m, k}, Fill::normal, 1),
                                 sample_tensor(dtype, {k, n}, Fill::normal, 2)}};
  return case_of(*find_op("matmul"), sample);
}

}  // namespace diji
