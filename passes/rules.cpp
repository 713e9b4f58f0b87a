// The table of the rules, and their counting.
#include "passes/rules.h"

#include "passes/passes.h"

namespace diji {
namespace {

constexpr PassRule kRules[] = {
    {"integer_products", "integer_products",
     "dot products and convolutions of dequantised tensors sum 8-bit integers"},
    {"fold_constants", "fold_constants", "nodes whose operands are constants become constants"},
    {"fold_sizes", "fold_constants", "integers known as expressions of sizes are written from these"},
    {"take_branches", "fold_constants", "a conditional whose branch is known becomes that branch"},
    {"constants_into_bodies", "fold_constants", "constants that a branch or a loop reads become its own"},
    {"drop_identity", "simplify", "a view or conversion that changes nothing is its operand", drop_identity},
    {"merge_reshapes", "simplify", "reshape of reshape is one reshape", merge_reshapes},
    {"merge_broadcasts", "simplify", "broadcast of broadcast is one broadcast", merge_broadcasts},
    {"sink_broadcast", "simplify", "element-wise work moves before the broadcast of all its operands",
     sink_broadcast},
    {"dot_of_transposed", "simplify", "a product reads a transposed side where it lies", dot_of_transposed},
    {"convolution_unit_axis", "simplify", "a spatial axis of size 1 under a kernel of size 1 is dropped",
     convolution_unit_axis},
    {"merge_common", "merge_common", "equal nodes are computed once"},
    {"fuse_elementwise", "fuse", "element-wise producers and views join their only consumer", nullptr,
     [](const Join& join) { return !join.root && !join.group_has_root; }},
    {"fuse_coordinates", "fuse", "coordinates, and indices made of them, are computed wherever they are read",
     nullptr, [](const Join& join) { return join.coordinates; }},
    {"fuse_gather", "fuse", "a gather joins its only consumer; what it reads stays in memory", nullptr,
     [](const Join& join) { return join.producer == Primitive::gather; }},
    {"fuse_prologue", "fuse", "element-wise producers join the reduction that reads them", nullptr,
     [](const Join& join) { return !join.root && join.group_has_root; }},
    {"fuse_epilogue", "fuse",
     "element-wise work behind a reduction, scan, dot product or convolution joins it", nullptr,
     [](const Join& join) { return join.root; }},
};

}  // namespace

std::span<const PassRule> rules() { return kRules; }

bool RuleUses::may(std::string_view rule) const {
  const auto found = uses_.find(rule);
  return found == uses_.end() || found->second.count < found->second.limit;
}

void RuleUses::applied(std::string_view rule, std::vector<std::string> nodes) {
  Use& use = uses_[std::string(rule)];
  ++use.count;
  use.nodes = std::move(nodes);
}

std::int64_t RuleUses::count(std::string_view rule) const {
  const auto found = uses_.find(rule);
  return found == uses_.end() ? 0 : found->second.count;
}

std::vector<std::string> RuleUses::last(std::string_view rule) const {
  const auto found = uses_.find(rule);
  return found == uses_.end() ? std::vector<std::string>() : found->second.nodes;
}

bool may_apply(const PassOptions& options, std::string_view rule) {
  return !options.disabled_rules.contains(rule) && (options.uses == nullptr || options.uses->may(rule));
}

void count_application(const PassOptions& options, std::string_view rule, const Node& node) {
  if (options.uses != nullptr) options.uses->applied(rule, {title_of(node)});
}

std::string title_of(const Node& node) {
  const std::string_view kind = node.op->name.substr(node.op->name.find('.') + 1);
  return node.name.empty() ? std::string(kind) : fmt::format("{} ({})", node.name, kind);
}

}  // namespace diji
