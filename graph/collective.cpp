// Groups, their order, and the reference of the collectives.
#include "graph/collective.h"

#include "graph/error_rules.h"
#include "graph/reference_index.h"

#include <algorithm>

namespace diji {
namespace {

bool is_collective_node(const Node& node) {
  const auto primitive = primitive_of(node.op);
  return primitive && is_collective(*primitive);
}

struct Seen {
  GroupChannel channel;
  const Node* node;
};

std::string place_of(const Node& node) {
  return node.name.empty() ? title_of_collective(node)
                           : fmt::format("{} ({})", node.name, title_of_collective(node));
}

Result<void> walk(const Graph& graph, std::map<std::string, Seen, std::less<>>& last) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.bodies) {
      if (body != nullptr) TRY(walk(*body, last));
    }
    if (!is_collective_node(node)) continue;
    const GroupChannel channel = channel_of(node.attributes);
    const auto [known, first] = last.emplace(channel.group, Seen{channel, &node});
    if (first) continue;
    const GroupChannel& before = known->second.channel;
    if (channel.number <= before.number) {
      return fail(ErrorCode::malformed, "graph '{}': {} stands behind {}: channels of a group must ascend",
                  graph.name, place_of(node), place_of(*known->second.node));
    }
    if (!(channel.ranks == before.ranks)) {
      return fail(ErrorCode::malformed, "graph '{}': {} is of {} ranks, {} of {}", graph.name, place_of(node),
                  channel.ranks.text(), place_of(*known->second.node), before.ranks.text());
    }
    known->second = {channel, &node};
  }
  return {};
}

// Elements [first, first + count) of an array, put behind those of another.
void append(Array& to, const Array& from, std::int64_t first, std::int64_t count) {
  std::visit(
      [&](auto& elements) {
        const auto& source = std::get<std::decay_t<decltype(elements)>>(from.elements);
        elements.insert(elements.end(), source.begin() + first, source.begin() + first + count);
      },
      to.elements);
}

void fold_in(Array& result, const Array& operand, Update update) {
  std::visit(
      [&](auto& cells) {
        const auto& values = std::get<std::decay_t<decltype(cells)>>(operand.elements);
        for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = update_cell(update, cells[i], values[i]);
      },
      result.elements);
}

}  // namespace

bool has_collective(const Node& node) {
  return is_collective_node(node) || std::ranges::any_of(node.bodies, [](const auto& body) {
           return body != nullptr && std::ranges::any_of(body->nodes(), has_collective);
         });
}

Result<std::map<std::string, Dim, std::less<>>> groups_of(const Graph& graph) {
  std::map<std::string, Seen, std::less<>> last;
  TRY(walk(graph, last));
  std::map<std::string, Dim, std::less<>> groups;
  for (const auto& [name, seen] : last) groups.emplace(name, seen.channel.ranks);
  return groups;
}

std::string title_of_collective(const Node& node) {
  const GroupChannel channel = channel_of(node.attributes);
  return fmt::format("{} in group '{}', channel {}", node.op->name.substr(node.op->name.find('.') + 1),
                     channel.group, channel.number);
}

Array collective_reference(const ReferenceCall& call, std::span<const Array* const> operands,
                           std::size_t rank) {
  Array result{.dtype = call.dtype, .shape = call.shape, .elements = {}};
  result.elements = empty_array(call.dtype, {0}).elements;
  const std::int64_t whole = operands[0]->count(), block = whole / std::ssize(operands);
  const auto first = static_cast<std::int64_t>(rank) * block;
  switch (call.primitive) {
    case Primitive::all_gather:
      for (const Array* operand : operands) append(result, *operand, 0, whole);
      return result;
    case Primitive::all_to_all:
      for (const Array* operand : operands) append(result, *operand, first, block);
      return result;
    case Primitive::collective_broadcast: {
      const auto root = static_cast<std::size_t>(call.attributes.get_or<std::int64_t>("root", 0));
      append(result, *operands[root], 0, whole);
      return result;
    }
    default: break;
  }
  const Update update = update_of(*parse_reduction(call.attributes.get_or("kind", std::string{})));
  const bool scatters = call.primitive == Primitive::reduce_scatter;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Array own{.dtype = call.dtype, .shape = call.shape, .elements = empty_array(call.dtype, {0}).elements};
    append(own, *operands[i], scatters ? first : 0, scatters ? block : whole);
    if (i == 0) {
      result = std::move(own);
    } else {
      fold_in(result, own, update);
    }
  }
  if (!is_floating(result.dtype)) round_to_dtype(result);
  return result;
}

namespace {

// Numbers of each rank's operand, combined as the elements are or by another reduction.
std::vector<double> combined(const ReferenceCall& call, std::vector<std::vector<double>> numbers,
                             const StaticShape& shape, std::optional<Reduction> reduction, std::size_t rank) {
  std::vector<Array> arrays;
  std::vector<const Array*> operands;
  for (auto& of_rank : numbers)
    arrays.push_back({.dtype = DType::f64, .shape = shape, .elements = std::move(of_rank)});
  for (const Array& array : arrays) operands.push_back(&array);
  Attributes attributes = call.attributes;
  if (reduction) attributes.set("kind", std::string(name_of(*reduction)));
  return collective_reference({call.primitive, {}, attributes, DType::f64, call.shape, call.bindings},
                              operands, rank)
      .doubles();
}

// A product of factors in any order: every partial one must stay a normal number, or nothing is promised.
double product_error(double least, double most, double exact, double depth, double u, DType dtype) {
  if (!(most <= largest(dtype)) || least < std::ldexp(1.0, -126)) return kInfinity;
  return most - std::fabs(exact) + times(gamma(depth, u), most);
}

}  // namespace

std::vector<double> collective_bound(const ReferenceCall& call, std::span<const Array* const> operands,
                                     std::span<const std::vector<double>* const> bounds, std::size_t rank,
                                     const Array& result) {
  const bool reduces = call.primitive == Primitive::all_reduce || call.primitive == Primitive::reduce_scatter;
  const StaticShape& shape = operands[0]->shape;
  std::vector<std::vector<double>> given, sizes, low, high;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    given.push_back(reduces ? usable(*operands[i], *bounds[i]) : *bounds[i]);
    sizes.push_back(as_doubles(*operands[i]));
    for (std::size_t k = 0; k < sizes[i].size(); ++k) sizes[i][k] = std::fabs(sizes[i][k]) + given[i][k];
    low.push_back(sizes[i]);
    high.push_back(sizes[i]);
    for (double& size : low[i]) size = size == 0 ? 1 : std::min(size, 1.0);  // 0 is exact in any order
    for (double& size : high[i]) size = std::max(size, 1.0);
  }
  if (!reduces) return combined(call, std::move(given), shape, {}, rank);
  const Reduction kind = *parse_reduction(call.attributes.get_or("kind", std::string{}));
  const bool extreme = kind == Reduction::min || kind == Reduction::max;
  auto errors = combined(call, std::move(given), shape, extreme ? Reduction::max : Reduction::sum, rank);
  if (extreme) return errors;
  const DType summed = is_narrow(call.dtype) ? DType::f32 : call.dtype;
  const auto depth = static_cast<double>(operands.size());
  if (!is_floating(call.dtype)) {  // which wrap
    for (double& error : errors) error = error == 0 ? 0 : kInfinity;
    return errors;
  }
  const auto values = as_doubles(result);
  const double u = unit_roundoff(summed);
  if (kind == Reduction::sum) {
    const auto magnitudes = combined(call, std::move(sizes), shape, Reduction::sum, rank);
    for (std::size_t i = 0; i < errors.size(); ++i)
      errors[i] = sum_error(errors[i], magnitudes[i], depth, u, call.dtype);
  } else {
    const auto least = combined(call, std::move(low), shape, Reduction::product, rank);
    const auto most = combined(call, std::move(high), shape, Reduction::product, rank);
    const auto whole = combined(call, std::move(sizes), shape, Reduction::product, rank);
    for (std::size_t i = 0; i < errors.size(); ++i) {
      const bool fits = most[i] <= largest(summed);
      errors[i] = fits ? product_error(least[i], whole[i], values[i], depth, u, summed) : kInfinity;
    }
  }
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (std::isnan(errors[i])) errors[i] = kInfinity;
    if (is_narrow(call.dtype) && std::isfinite(values[i]))
      errors[i] += unit_roundoff(call.dtype) * (std::fabs(values[i]) + errors[i]);
    errors[i] += subnormal_step(call.dtype);
  }
  return errors;
}

}  // namespace diji
