// Draws one operator's graph, and inputs for it.
#include "tests/fuzz/operator_template.h"

#include "base/checked.h"
#include "graph/bind.h"
#include "graph/builder.h"
#include "graph/text.h"
#include "ops/samples.h"

#include <algorithm>
#include <array>

namespace diji::fuzz {
namespace {

// Of all inputs and outputs of a case: the float64 interpreter computes every element of it.
constexpr std::int64_t kElementsMax = 3000;
constexpr int kTriesForSizes = 12;

// Around the widths of vectors (4 to 64 elements), odd, one, none.
constexpr std::array<std::int64_t, 24> kSizes = {0, 1,  1,  2,  2,  3,  3,  4,  5,  6,  7,  8,
                                                 9, 11, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65};

// A tensor of this shape with values that are already in `like`.
HostTensor resampled(Draw& draw, const HostTensor& like, StaticShape shape) {
  if (like.count() == 0) return sample_tensor(like.dtype(), std::move(shape), Fill::positive, draw.bits());
  HostTensor tensor = HostTensor::allocate(like.dtype(), std::move(shape)).value();
  visit_dtype(like.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto values = like.values<T>();
    for (T& value : tensor.mutable_values<T>()) value = draw.of(values);
  });
  return tensor;
}

Fill any_fill(Draw& draw) {
  constexpr std::array kFills = {Fill::normal, Fill::normal, Fill::normal,  Fill::positive,
                                 Fill::wide,   Fill::wide,   Fill::special, Fill::positive};
  return draw.of(kFills);
}

Attribute changed(Draw& draw, Attribute value) {
  constexpr std::array<double, 9> kReals = {0, 0.5, 1, -1, 1e-5, 2, 3.25, -0.25, 100};
  const auto number = [&](std::int64_t old) -> std::int64_t {
    switch (draw.below(4)) {
      case 0: return old + 1;
      case 1: return old - 1;
      case 2: return old > 1 ? 1 : 2 - old;
      default: return draw.below(9) - 4;
    }
  };
  if (auto* integer = std::get_if<std::int64_t>(&value)) {
    *integer = number(*integer);
  } else if (auto* real = std::get_if<double>(&value)) {
    *real = draw.of(kReals);
  } else if (auto* list = std::get_if<Ints>(&value); list != nullptr && !list->empty()) {
    std::int64_t& one = (*list)[static_cast<std::size_t>(draw.below(std::ssize(*list)))];
    one = number(one);
  } else if (auto* reals = std::get_if<Floats>(&value); reals != nullptr && !reals->empty()) {
    (*reals)[static_cast<std::size_t>(draw.below(std::ssize(*reals)))] = draw.of(kReals);
  }
  return value;
}

// One attribute as another sample has it, or a neighbour of what it is.
void change_attribute(Draw& draw, const OpDef& op, std::span<const Sample> samples, Attributes& attributes) {
  if (op.attributes.empty()) return;
  const std::string_view name = draw.of(op.attributes).name;
  const Sample& other = samples[static_cast<std::size_t>(draw.below(std::ssize(samples)))];
  const Attribute* value = draw.one_in(2) ? other.attributes.find(name) : attributes.find(name);
  if (value == nullptr) value = attributes.find(name);
  if (value == nullptr) value = other.attributes.find(name);
  if (value == nullptr) return;
  attributes.set(name, draw.one_in(3) ? *value : changed(draw, *value));
}

// Other shapes than the sample's: an axis of one or none, an axis more or less in one input or in all.
void change_shapes(Draw& draw, std::vector<HostTensor>& inputs, const std::vector<bool>& constant) {
  const bool all = draw.one_in(2);
  const std::int64_t chosen = draw.below(std::ssize(inputs));
  const std::int64_t kind = draw.below(5);
  const std::int64_t size = draw.of(kSizes);
  const std::int64_t from_end = 1 + draw.below(4);
  for (std::int64_t i = 0; i < std::ssize(inputs); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if ((!all && i != chosen) || (at < constant.size() && constant[at])) continue;
    StaticShape shape = inputs[at].shape();
    if (kind == 0) shape.insert(shape.begin(), size % 5);
    if (kind == 1) shape.insert(shape.begin(), 1);
    if (kind == 2 && !shape.empty()) shape.erase(shape.begin());
    if (kind >= 3 && std::ssize(shape) >= from_end)
      shape[shape.size() - static_cast<std::size_t>(from_end)] = kind == 3 ? 1 : 0;
    if (checked_product(shape).value_or(kElementsMax) >= 4 * kElementsMax) continue;
    inputs[at] = resampled(draw, inputs[at], shape);
  }
}

}  // namespace

Dim OperatorTemplate::declared_size(Draw& draw, std::int64_t size) {
  // Sizes of 0 and 1 mostly stay numbers: whether an axis stretches is known when a graph is built.
  if (!symbolic_ || (size < 2 && !draw.one_in(4)) || (at_least_one_ && size == 0)) return size;
  const std::string name = fmt::format("n{}", sample_sizes_.size());
  sample_sizes_[name] = size;
  return Dim::symbol(name, at_least_one_ ? Bounds{1, std::int64_t{1} << 20} : Bounds{});
}

bool OperatorTemplate::build(Draw& draw, std::vector<Sample> samples) {
  const Sample& origin = samples[static_cast<std::size_t>(draw.below(std::ssize(samples)))];
  label_ = origin.label;
  std::vector<HostTensor> inputs = origin.inputs;
  attributes_ = origin.attributes;
  for (std::int64_t i = draw.below(3); i > 0; --i) change_attribute(draw, *op_, samples, attributes_);
  if (!inputs.empty() && draw.one_in(2)) change_shapes(draw, inputs, origin.constant);
  symbolic_ = !draw.one_in(6);
  at_least_one_ = draw.one_in(4);
  graph_.stretches = draw.one_in(4);
  graph_.name = std::string(op_->name);
  const std::string_view first_type = op_->inputs.empty() ? "T" : op_->inputs[0].type;
  Values operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool given = i < origin.constant.size() && origin.constant[i];
    if (given || draw.one_in(12)) {
      operands.push_back(graph_.add_constant(inputs[i]));
      continue;
    }
    Shape shape;
    for (const std::int64_t size : inputs[i].shape()) shape.push_back(declared_size(draw, size));
    const Operand& operand = op_->inputs[std::min(i, op_->inputs.size() - 1)];
    operands.push_back(graph_.add_input(fmt::format("input_{}", i), {inputs[i].dtype(), shape}));
    fed_.push_back({inputs[i], shape, operand.type == first_type && !operand.sizes});
  }
  Builder builder(graph_);
  const Values outputs = builder.call(*op_, std::move(operands), attributes_);
  for (const ValueId id : outputs) {
    if (id != ValueId::none) graph_.add_output(fmt::format("output_{}", graph_.outputs().size()), id);
  }
  return builder.ok() && !graph_.outputs().empty();
}

void OperatorTemplate::choose(std::span<const OpDef* const> operators, Draw& draw) {
  op_ = draw.of(operators);
  const DTypeSet allowed = op_->inputs.empty() ? kAny : op_->inputs[0].dtypes;
  std::vector<DType> dtypes;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    if (contains(allowed, static_cast<DType>(i))) dtypes.push_back(static_cast<DType>(i));
  }
  dtype_ = draw.of(dtypes);
}

std::string OperatorTemplate::chosen(std::span<const OpDef* const> operators, std::uint64_t seed) {
  Draw draw(seed);
  OperatorTemplate result;
  result.choose(operators, draw);
  return fmt::format("{} {}", result.op_->name, name_of(result.dtype_));
}

std::optional<OperatorTemplate> OperatorTemplate::drawn(std::span<const OpDef* const> operators,
                                                        std::uint64_t seed) {
  Draw draw(seed);
  OperatorTemplate result;
  result.seed_ = seed;
  result.choose(operators, draw);
  std::vector<Sample> samples = result.op_->samples(result.dtype_);
  if (samples.empty() || !result.build(draw, std::move(samples))) return std::nullopt;
  return result;
}

std::string OperatorTemplate::text() const {
  return fmt::format("{} {} after '{}'\n{}", op_->name, name_of(dtype_), label_, print(graph_));
}

Bindings OperatorTemplate::random_sizes(Draw& draw, const Graph& compiled) const {
  Bindings sizes = sample_sizes_;
  // Few symbols at once, or all: what fits together by chance is found among the few.
  const std::int64_t one_in = draw.of(std::array<std::int64_t, 4>{1, 2, 3, 5});
  for (auto& [name, size] : sizes) {
    if (draw.one_in(one_in)) size = std::max<std::int64_t>(draw.of(kSizes), at_least_one_ ? 1 : 0);
  }
  // What must be equal is made equal, where one side is a symbol alone.
  for (int round = 0; round < 3; ++round) {
    for (const Constraint& constraint : compiled.constraints()) {
      if (constraint.kind != Constraint::Kind::equal) continue;
      const bool left = constraint.left.symbol_name().has_value();
      if (!left && !constraint.right.symbol_name()) continue;
      const auto name = left ? constraint.left.symbol_name() : constraint.right.symbol_name();
      const auto value = (left ? constraint.right : constraint.left).evaluate(sizes);
      const auto found = sizes.find(*name);
      const bool stretched = graph_.stretches && value && (*value == 1 || found->second == 1);
      if (value && found != sizes.end() && *value >= (at_least_one_ ? 1 : 0) && !stretched)
        found->second = *value;
    }
  }
  return sizes;
}

bool OperatorTemplate::small_enough(const Bindings& sizes) const {
  std::int64_t total = 0;
  for (const Value& value : graph_.values()) {
    const auto shape = evaluate(value.type.shape, sizes);
    if (!shape) continue;  // only the run tells
    const auto count = checked_product(*shape);
    if (!count || *count > kElementsMax) return false;
    total += *count;
  }
  return total <= kElementsMax;
}

std::optional<std::vector<HostTensor>> OperatorTemplate::inputs(const Graph& compiled,
                                                                std::uint64_t number) const {
  Draw draw(seed_ * 0x9e3779b97f4a7c15 + number);
  Bindings sizes;
  bool found = false;
  for (int tries = 0; tries < kTriesForSizes && !found; ++tries) {
    sizes = random_sizes(draw, compiled);
    found = small_enough(sizes) && (draw.one_in(32) || check_constraints(compiled, sizes));
  }
  if (!found) return std::nullopt;
  std::vector<HostTensor> tensors;
  for (const Fed& fed : fed_) {
    const StaticShape shape = evaluate(fed.shape, sizes).value();
    const bool like = fed.like.dtype() != DType::boolean && draw.below(10) < (fed.same_type ? 2 : 9);
    tensors.push_back(like ? resampled(draw, fed.like, shape)
                           : sample_tensor(fed.like.dtype(), shape, any_fill(draw), draw.bits() % 1000));
  }
  return tensors;
}

}  // namespace diji::fuzz
