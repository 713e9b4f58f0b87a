// Groups, their order, and the reference of the collectives.
#include "graph/collective.h"

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

}  // namespace diji
