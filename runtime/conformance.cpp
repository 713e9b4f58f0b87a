// Operators on a device against the interpreter.
#include "runtime/conformance.h"

#include "graph/builder.h"
#include "graph/error_bound.h"
#include "graph/interpreter.h"
#include "runtime/compiler.h"

#include <cmath>
#include <map>
#include <utility>

namespace diji {
namespace {

double ulp_at(double value, DType dtype) {
  const double magnitude = std::fabs(value);
  const int exponent = magnitude == 0 ? -1022 : std::ilogb(magnitude);
  const int smallest = dtype == DType::f64 ? -1022 : dtype == DType::f16 ? -14 : -126;
  return std::ldexp(1.0, std::max(exponent, smallest) - info(dtype).mantissa_bits);
}

// Rounded to the dtype: a truth beyond its range is the infinity that a kernel rightly gives.
double representable(double value, DType dtype) {
  switch (dtype) {
    case DType::f32: return static_cast<double>(static_cast<float>(value));
    case DType::f16: return static_cast<double>(Float16(value));
    case DType::bf16: return static_cast<double>(BFloat16(value));
    default: return value;
  }
}

struct Element {
  double got, truth, bound;
};

// Whether a float may stand for the truth; the share of the bound it used.
double share_of_bound(const Element& e, DType dtype) {
  if (std::isnan(e.truth)) return std::isnan(e.got) ? 0 : HUGE_VAL;
  if (std::isinf(e.truth)) return e.got == e.truth ? 0 : HUGE_VAL;
  if (std::isinf(e.got)) {
    // Right where the truth may lie beyond what the dtype can hold.
    const bool may_overflow = std::isinf(representable(std::fabs(e.truth) + e.bound, dtype));
    return may_overflow && std::signbit(e.got) == std::signbit(e.truth) ? 0 : HUGE_VAL;
  }
  const double error = std::fabs(e.got - e.truth);
  if (std::isnan(error)) return HUGE_VAL;
  return error == 0 ? 0 : error / e.bound;
}

// Kernels for sizes that are baked in and for sizes that come at run time are different text; both are
// tested.
enum class Sizes : std::uint8_t { fixed, symbolic };

// Sizes 0 and 1 stay numbers: whether an axis stretches or is empty is part of the sample.
Shape declared_shape(const HostTensor& tensor, std::size_t input, Sizes sizes) {
  Shape shape;
  for (std::size_t axis = 0; axis < tensor.shape().size(); ++axis) {
    const std::int64_t size = tensor.shape()[axis];
    const bool named = sizes == Sizes::symbolic && size > 1;
    shape.push_back(named ? Dim::symbol(fmt::format("n{}_{}", input, axis)) : Dim(size));
  }
  return shape;
}

Graph graph_of(const OpDef& op, const Sample& sample, Sizes sizes, std::vector<HostTensor>& fed,
               Result<void>& status) {
  Graph graph;
  graph.name = std::string(op.name);
  Values inputs;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const HostTensor& tensor = sample.inputs[i];
    if (i < sample.constant.size() && sample.constant[i]) {
      inputs.push_back(graph.add_constant(tensor));
    } else {
      inputs.push_back(
          graph.add_input(fmt::format("input_{}", i), {tensor.dtype(), declared_shape(tensor, i, sizes)}));
      fed.push_back(tensor);
    }
  }
  Builder builder(graph);
  const Values outputs = builder.call(op, std::move(inputs), sample.attributes);
  status = builder.status();
  for (const ValueId id : outputs) {
    if (id != ValueId::none) graph.add_output(fmt::format("output_{}", graph.outputs().size()), id);
  }
  return graph;
}

// Of two, what is worse of each; the first problem stays.
void merge_into(Comparison& worst, Comparison one) {
  if (worst.ok && !one.ok) worst.problem = std::move(one.problem);
  worst.ok &= one.ok;
  worst.worst_ulp = std::max(worst.worst_ulp, one.worst_ulp);
  worst.worst_share = std::max(worst.worst_share, one.worst_share);
  worst.unproved += one.unproved;
}

// One sample with its sizes in one form: what is fed and what should come out.
struct Case {
  const Sample* sample;
  Sizes sizes;
  std::vector<HostTensor> fed;
  std::vector<BoundedTensor> truth;
};

// The graph of a case, with the rest of the case filled in.
Result<Graph> prepared(const OpDef& op, Case& one) {
  Result<void> status;
  Graph graph = graph_of(op, *one.sample, one.sizes, one.fed, status);
  TRY(std::move(status));
  // First: memory that is not the operator's own may be anything afterwards.
  if (op.custom != nullptr) TRY(check_outputs(*op.custom, one.sample->inputs, one.sample->attributes));
  one.truth = TRY(interpret_with_bounds(graph, one.fed));
  if (op.custom != nullptr) {
    TRY(check_strides(*op.custom, one.sample->inputs, one.sample->attributes));
    TRY(check_gradient(*op.custom, one.sample->inputs, one.sample->attributes));
  }
  return graph;
}

// A NaN's sign and payload depend on the order in which a compiler writes the operands of a commutative
// instruction: all count as one.
void append_bits(std::string& bits, const HostTensor& tensor) {
  bits += fmt::format("{}{}", name_of(tensor.dtype()), text_of(tensor.shape()));
  const auto bytes = tensor.bytes();
  const auto width = static_cast<std::size_t>(bytes_of(tensor.dtype()));
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const bool nan = is_floating(tensor.dtype()) && std::isnan(tensor.as_double(i));
    const auto element = bytes.subspan(static_cast<std::size_t>(i) * width, width);
    bits += nan ? std::string("NaN") : std::string(reinterpret_cast<const char*>(element.data()), width);
  }
}

Result<Comparison> run_case(Device& device, const std::shared_ptr<const Executable>& executable,
                            const Case& one, std::string& bits) {
  const auto context = TRY(ExecutionContext::create(executable, device.default_pool()));
  const auto got = TRY(context->run(one.fed));
  Comparison worst;
  for (std::size_t i = 0; i < got.size(); ++i) {
    append_bits(bits, got[i]);
    merge_into(worst, compare_with_truth(got[i], one.truth[i].value, one.truth[i].bound));
  }
  return worst;
}

}  // namespace

Comparison compare_with_truth(const HostTensor& got, const HostTensor& truth, const HostTensor& bound) {
  Comparison result;
  if (got.shape() != truth.shape())
    return {.ok = false,
            .problem = fmt::format("shape {}, wanted {}", text_of(got.shape()), text_of(truth.shape()))};
  const bool floating = is_floating(got.dtype());
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const Element e{got.as_double(i), truth.as_double(i),
                    bound.values<double>()[static_cast<std::size_t>(i)]};
    if (!std::isfinite(e.bound) && std::isfinite(e.truth)) {
      ++result.unproved;
      continue;
    }
    const bool holds = std::fabs(e.got - e.truth) <= e.bound;
    const double share = floating ? share_of_bound(e, got.dtype()) : holds ? 0 : HUGE_VAL;
    if (floating && std::isfinite(e.got) && std::isfinite(e.truth)) {
      result.worst_ulp =
          std::max(result.worst_ulp, std::fabs(e.got - e.truth) / ulp_at(e.truth, got.dtype()));
    }
    result.worst_share = std::max(result.worst_share, share);
    if (share <= 1 || !result.ok) continue;
    result.ok = false;
    result.problem =
        fmt::format("element {}: got {}, true value {}, proven bound {:.3g}", i, e.got, e.truth, e.bound);
  }
  // 64-bit integers are compared exactly, beyond what a double can tell apart.
  if (!floating && result.ok && got.dtype() == truth.dtype() && result.worst_share == 0) {
    bool exact = true;
    for (const double b : bound.values<double>()) exact &= b == 0;
    if (exact && !got.same_bits(truth)) return {.ok = false, .problem = "integers differ"};
  }
  return result;
}

namespace {

// One node of a custom operator, on its own.
Graph alone(const Graph& graph, const Node& node) {
  Graph result = graph.scratch();
  Node copy = node;
  std::vector<Type> types;
  for (ValueId& id : copy.inputs) {
    if (id != ValueId::none) id = result.add_input(fmt::format("{}", result.inputs().size()), graph.type(id));
  }
  for (const ValueId id : node.outputs) types.push_back(graph.type(id));
  for (const ValueId id : result.add_node(std::move(copy), std::move(types)).outputs)
    result.add_output(fmt::format("{}", result.outputs().size()), id);
  return result;
}

}  // namespace

Result<std::optional<Comparison>> check_kernel(const Observation& seen) {
  const Node& node = seen.graph.node(seen.graph.value(seen.step.value).producer);
  const bool custom = node.op->custom != nullptr;
  if (!seen.complete || (!custom && primitive_of(node.op) != Primitive::fusion)) return std::nullopt;
  std::vector<HostTensor> captures;
  for (const ValueId id : node.inputs) {
    if (id != ValueId::none) captures.push_back(TRY(seen.read(id)));
  }
  const Graph body = custom ? alone(seen.graph, node) : *node.bodies[0];
  const auto truth = TRY(interpret_with_bounds(body, captures, seen.bindings));
  Comparison worst;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const HostTensor got = TRY(seen.read(node.outputs[i]));
    merge_into(worst, compare_with_truth(got, truth[i].value, truth[i].bound));
  }
  return worst;
}

Result<std::vector<KernelCheck>> verify_kernels(std::shared_ptr<const Executable> executable,
                                                std::span<const HostTensor> inputs) {
  const auto context = TRY(ExecutionContext::create(executable, executable->device->default_pool()));
  std::vector<KernelCheck> checks;
  std::map<std::pair<std::size_t, NodeId>, std::size_t> known;
  const auto observer = [&](const Observation& seen) -> Result<void> {
    auto compared = TRY(check_kernel(seen));
    if (!compared) return {};
    const NodeId id = seen.graph.value(seen.step.value).producer;
    const Node& node = seen.graph.node(id);
    const auto [entry, first] = known.emplace(std::pair(seen.program, id), checks.size());
    if (first) {
      const bool copies = !node.bodies.empty() && node.bodies[0]->nodes().empty();
      const Node& last = node.bodies.empty() || copies ? node : node.bodies[0]->nodes().back();
      checks.push_back({std::string(copies ? "copy" : last.op->name), {}});
    }
    // A kernel of a loop's body is checked in every iteration.
    merge_into(checks[entry->second].comparison, *std::move(compared));
    return {};
  };
  TRY(context->run(inputs, {.observer = observer}));
  return checks;
}

Comparison compare_with_tolerance(const HostTensor& got, const HostTensor& wanted, double rtol, double atol) {
  Comparison result;
  if (got.dtype() != wanted.dtype() || got.shape() != wanted.shape()) {
    return {.ok = false,
            .problem = fmt::format("{}{}, wanted {}{}", name_of(got.dtype()), text_of(got.shape()),
                                   name_of(wanted.dtype()), text_of(wanted.shape()))};
  }
  const bool floating = is_floating(got.dtype());
  if (!floating) {
    if (got.same_bits(wanted)) return result;
    result.ok = false;
  }
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const double a = got.as_double(i), b = wanted.as_double(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double error = std::fabs(a - b);
    result.max_abs_error = std::max(result.max_abs_error, std::isnan(error) ? HUGE_VAL : error);
    result.max_rel_error =
        std::max(result.max_rel_error, std::isnan(error) ? HUGE_VAL : error / std::fabs(b));
    if (floating && error <= atol + rtol * std::fabs(b)) continue;
    result.ok = false;
    if (result.problem.empty()) result.problem = fmt::format("element {}: got {}, wanted {}", i, a, b);
  }
  return result;
}

VerifyRow verify_operator(Device& device, CompileCache& cache, const OpDef& op, DType dtype) {
  VerifyRow row{.op = std::string(op.name), .dtype = dtype, .device = device.name()};
  const bool no_kernels = device.info().dialect.empty();
  const auto count = [&](const Sample& sample, const Result<Comparison>& compared) {
    ++row.cases;
    if (!compared && (no_kernels || compared.error().code == ErrorCode::unsupported)) {
      ++row.unsupported;
      if (row.problem.empty()) row.problem = compared.error().message;
    } else if (compared && compared->ok) {
      row.unproved += compared->unproved;
      row.worst_ulp = std::max(row.worst_ulp, compared->worst_ulp);
      row.worst_share = std::max(row.worst_share, compared->worst_share);
    } else if (row.failed++ == 0) {
      row.problem =
          fmt::format("{}: {}", sample.label, compared ? compared->problem : compared.error().message);
    }
  };
  const std::vector<Sample> samples = samples_of(op, dtype);
  std::vector<Case> cases;
  std::vector<Result<std::shared_ptr<const Executable>>> executables;  // by case
  std::vector<Graph> graphs;
  std::vector<std::size_t> case_of_graph;
  for (const Sample& sample : samples) {
    for (const Sizes sizes : {Sizes::fixed, Sizes::symbolic}) {
      cases.push_back({&sample, sizes, {}, {}});
      auto graph = prepared(op, cases.back());
      executables.push_back(
          graph ? nullptr : Result<std::shared_ptr<const Executable>>(std::unexpected(graph.error())));
      if (!graph) continue;
      graphs.push_back(*std::move(graph));
      case_of_graph.push_back(cases.size() - 1);
    }
  }
  auto compiled = compile_together(graphs, device, cache, {.verify_each = true});
  for (std::size_t i = 0; i < graphs.size(); ++i) executables[case_of_graph[i]] = std::move(compiled[i]);
  std::string bits;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Result<Comparison> compared = executables[i]
                                            ? run_case(device, *executables[i], cases[i], bits)
                                            : Result<Comparison>(std::unexpected(executables[i].error()));
    // Where an operator needs some size as a number (a kernel's), the symbolic form of the sample is no case.
    const bool no_case =
        cases[i].sizes == Sizes::symbolic && !compared &&
        (compared.error().code == ErrorCode::unsupported || compared.error().code == ErrorCode::mismatch);
    if (!no_case) count(*cases[i].sample, compared);
  }
  row.bits = CompileCache::key_of(bits, "");
  return row;
}

}  // namespace diji
