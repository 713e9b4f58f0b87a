// Which values are made of coordinates.
#include "passes/coordinates.h"

#include <algorithm>

namespace diji {

bool is_cheap(Primitive map) {
  switch (map) {
    case Primitive::add:
    case Primitive::subtract:
    case Primitive::multiply:
    case Primitive::minimum:
    case Primitive::maximum:
    case Primitive::bit_and:
    case Primitive::bit_or:
    case Primitive::bit_xor:
    case Primitive::shift_left:
    case Primitive::shift_right:
    case Primitive::equal:
    case Primitive::less:
    case Primitive::select:
    case Primitive::absolute:
    case Primitive::convert: return true;
    default: return false;
  }
}

std::vector<bool> made_of_coordinates(const Graph& graph) {
  enum class Kind : std::uint8_t { data, number, coordinates };
  std::vector<Kind> kinds(graph.nodes().size(), Kind::data);
  const auto kind_of = [&](ValueId id) {
    const Value& value = graph.value(id);
    if (value.constant != nullptr) return value.constant->count() == 1 ? Kind::number : Kind::data;
    if (value.producer == NodeId::none) return Kind::data;
    const Kind kind = kinds[static_cast<std::size_t>(value.producer)];
    const bool size = value.contents && value.contents->size() == 1;
    return kind == Kind::data && size ? Kind::number : kind;
  };
  std::vector<bool> result(graph.nodes().size(), false);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const auto primitive = primitive_of(node.op);
    if (!primitive) continue;
    if (primitive == Primitive::iota) kinds[i] = Kind::coordinates;
    if (is_view(*primitive) || (is_map(*primitive) && is_cheap(*primitive))) {
      Kind highest = Kind::number;
      for (const ValueId id : node.inputs) {
        const Kind kind = kind_of(id);
        highest = highest == Kind::data || kind == Kind::data ? Kind::data : std::max(highest, kind);
      }
      kinds[i] = highest;
    }
    result[i] = kinds[i] == Kind::coordinates;
  }
  return result;
}

}  // namespace diji
