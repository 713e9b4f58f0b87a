// Sentences about nodes and values.
#include "formats/onnx/names.h"

#include "base/nearest.h"

#include <algorithm>
#include <vector>

namespace diji::onnx {

std::string shown(std::string_view name) {
  constexpr std::size_t kShownBytesMax = 100;
  if (name.size() <= kShownBytesMax) return std::string(name);
  std::size_t end = kShownBytesMax;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0U) == 0x80) --end;  // not inside a character
  return std::string(name.substr(0, end)) + "…";
}

std::string nearest_hint(std::string_view name, std::span<const std::string> candidates) {
  constexpr std::size_t kStepsMax = 1 << 26;  // a fraction of a second
  std::size_t steps = 0;
  std::vector<std::string> comparable;
  for (const std::string& candidate : candidates) {
    const std::size_t gap = std::max(candidate.size(), name.size()) - std::min(candidate.size(), name.size());
    if (gap > (name.size() + 2) / 3) continue;  // nearest_name would not accept it either
    steps += candidate.size() * name.size();
    if (steps > kStepsMax) break;
    comparable.push_back(candidate);
  }
  const std::string nearest = nearest_name(name, comparable);
  return nearest.empty() ? "" : fmt::format("; the nearest is '{}'", shown(nearest));
}

std::string type_of(const NodeProto& node) {
  const std::string_view domain = domain_of(node.domain);
  return domain.empty() ? shown(node.op_type) : fmt::format("{}.{}", shown(domain), shown(node.op_type));
}

std::string title_of(const NodeProto& node) {
  if (!node.name.empty()) return fmt::format("node '{}' ({})", shown(node.name), type_of(node));
  if (node.outputs.empty()) return fmt::format("a node ({})", type_of(node));
  return fmt::format("the node of '{}' ({})", shown(node.outputs[0]), type_of(node));
}

std::unexpected<Error> at_node(std::string_view file, const NodeProto& node, Error error) {
  const bool has_place = !error.file.empty();  // its sentence names a nearer one, in a body perhaps
  if (!has_place || error.op.empty()) {
    error.op = node.name.empty() ? type_of(node) : fmt::format("{} '{}'", type_of(node), shown(node.name));
  }
  if (has_place) return std::unexpected(std::move(error));
  error.file = std::string(file);
  error.offset = node.offset;
  return in_context(fmt::format("{}: byte {}: {}", file, node.offset, title_of(node)), std::move(error));
}

}  // namespace diji::onnx
