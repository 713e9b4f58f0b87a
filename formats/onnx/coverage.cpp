// Operator sets, versions and the list of what is missing.
#include "formats/onnx/coverage.h"

#include "formats/onnx/functions.h"
#include "formats/onnx/names.h"
#include "formats/onnx/special.h"
#include "graph/custom_op.h"
#include "ops/catalog.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace diji::onnx {
namespace {

// Real models lack a dozen at most; a hostile one must not turn into an error of megabytes.
constexpr std::size_t kNamedMax = 256;

std::string hint_for(const NodeProto& node, const Record& record, const Opsets& opsets) {
  if (record.op != nullptr) {
    return fmt::format("in operator set {}; versions {} are understood", opsets.at(domain_of(node.domain)),
                       fmt::join(record.op->onnx.versions, ", "));
  }
  std::vector<std::string> names;
  for (const OpDef* op : catalog()) {
    if (!op->onnx.type.empty()) names.emplace_back(op->onnx.type);
  }
  for (const SpecialOp& op : special_ops()) names.emplace_back(op.type);
  const std::string nearest = nearest_hint(type_of(node), names);
  return nearest.empty() ? "" : nearest.substr(2);  // without "; "
}

class Survey {
 public:
  Survey(const Model& model, const FunctionTable& functions, std::span<const OpDef* const> custom_ops)
      : model_(model), functions_(functions), custom_ops_(custom_ops) {}

  Result<void> visit(const GraphProto& graph, const Opsets& opsets) {
    for (const NodeProto& node : graph.nodes) {
      if (!opsets.contains(domain_of(node.domain))) {
        auto error =
            fail(ErrorCode::malformed, "{} imports no operator set of the domain '{}'",
                 path_.empty() ? "the model" : fmt::format("the function '{}'", name_of(*path_.back())),
                 shown(node.domain.empty() ? "ai.onnx" : node.domain));
        return at_node(model_.file, node, std::move(error).error());
      }
      if (const FunctionProto* function = functions_.find(node)) {
        TRY(enter(*function, node));
      } else {
        count(node, opsets);
      }
      Result<void> inner;
      for_each_graph(node, [&](const GraphProto& body) {
        if (inner) inner = visit(body, opsets);  // nesting is bounded by the parser
      });
      TRY(inner);
    }
    return {};
  }

  std::vector<OperatorUse> take() {
    std::vector<OperatorUse> all;
    for (auto& [type, use] : uses_) all.push_back(std::move(use));
    return all;
  }

 private:
  // Each body once, however often it is called.
  Result<void> enter(const FunctionProto& function, const NodeProto& node) {
    if (const auto again = std::ranges::find(path_, &function); again != path_.end()) {
      std::vector<std::string> names;
      for (auto step = again; step != path_.end(); ++step) names.push_back(name_of(**step));
      names.push_back(name_of(function));
      auto error = fail(ErrorCode::malformed, "the function '{}' calls itself: {}", name_of(function),
                        fmt::join(names, " -> "));
      return at_node(model_.file, node, std::move(error).error());
    }
    if (!seen_.insert(&function).second) return {};
    if (path_.size() == kScopeDepthMax) {
      auto error = fail(ErrorCode::unsupported, "functions call each other deeper than {}", kScopeDepthMax);
      return at_node(model_.file, node, std::move(error).error());
    }
    const Opsets opsets = TRY(read_opsets(function, model_.file));
    path_.push_back(&function);
    TRY(visit(function.body, opsets));
    path_.pop_back();
    return {};
  }

  void count(const NodeProto& node, const Opsets& opsets) {
    OperatorUse& use = uses_[type_of(node)];
    const Record record = find_record(node, opsets, custom_ops_);
    const bool known = find_special(node) != nullptr || (record.op != nullptr && record.version > 0);
    if (use.count++ == 0) {
      use.type = type_of(node);
      use.offset = node.offset;
    }
    if (known || use.missing) return;
    use.missing = true;  // in one of the operator sets at least
    use.offset = node.offset;
    use.hint = hint_for(node, record, opsets);
  }

  const Model& model_;
  const FunctionTable& functions_;
  std::span<const OpDef* const> custom_ops_;
  std::map<std::string, OperatorUse> uses_;
  std::set<const FunctionProto*> seen_;
  std::vector<const FunctionProto*> path_;
};

Result<Opsets> collect_opsets(std::span<const OperatorSetId> list, std::string_view file) {
  Opsets opsets;
  for (const OperatorSetId& opset : list) {
    const std::string_view domain = domain_of(opset.domain);
    if (opset.version < 1) {
      return fail_at(ErrorCode::malformed, file, opset.offset, "operator set '{}' has version {}",
                     shown(domain), opset.version);
    }
    if (domain.empty() && opset.version > kOpsetKnownMax) {
      return fail_at(ErrorCode::unsupported, file, opset.offset,
                     "operator set {} of ai.onnx; versions up to {} are understood", opset.version,
                     kOpsetKnownMax);
    }
    const auto [known, is_new] = opsets.emplace(domain, opset.version);
    if (!is_new && known->second != opset.version) {
      return fail_at(ErrorCode::malformed, file, opset.offset, "operator set '{}' has versions {} and {}",
                     shown(domain.empty() ? "ai.onnx" : domain), known->second, opset.version);
    }
  }
  return opsets;
}

}  // namespace

Result<Opsets> read_opsets(const Model& model) {
  if (model.ir_version < 1) {
    return fail_at(ErrorCode::malformed, model.file, 0, "ir_version is {}: this is no ONNX model",
                   model.ir_version);
  }
  if (model.ir_version > kIrVersionMax) {
    return fail_at(ErrorCode::unsupported, model.file, 0, "IR version {}; versions up to {} are understood",
                   model.ir_version, kIrVersionMax);
  }
  Opsets opsets = TRY(collect_opsets(model.opsets, model.file));
  if (opsets.empty()) {
    if (model.ir_version >= kIrVersionWithOpsets) {
      return fail_at(ErrorCode::malformed, model.file, 0,
                     "the model imports no operator set: it is cut off or no ONNX model");
    }
    opsets.emplace("", 1);
  }
  return opsets;
}

Result<Opsets> read_opsets(const FunctionProto& function, std::string_view file) {
  return collect_opsets(function.opsets, file);
}

Record find_record(const NodeProto& node, const Opsets& opsets, std::span<const OpDef* const> custom_ops) {
  const std::string_view domain = domain_of(node.domain);
  const std::string type =
      domain.empty() ? std::string(node.op_type) : fmt::format("{}.{}", domain, node.op_type);
  const OpDef* op = find_custom(custom_ops, type);
  if (op == nullptr) op = find_onnx(type);
  Record record{.op = op};
  const auto opset = opsets.find(domain);
  if (record.op == nullptr || opset == opsets.end()) return record;
  for (const std::int64_t version : record.op->onnx.versions) {
    if (version <= opset->second) record.version = std::max(record.version, version);
  }
  return record;
}

Result<std::vector<OperatorUse>> survey(const Model& model, const Opsets& opsets,
                                        const FunctionTable& functions,
                                        std::span<const OpDef* const> custom_ops) {
  Survey survey(model, functions, custom_ops);
  TRY(survey.visit(model.graph, opsets));
  return survey.take();
}

Result<void> refuse_missing(const std::vector<OperatorUse>& uses, std::string_view file) {
  std::vector<std::string> lines, types;
  std::int64_t first = -1;
  std::size_t count = 0;
  for (const OperatorUse& use : uses) {
    if (!use.missing) continue;
    ++count;
    first = first < 0 ? use.offset : std::min(first, use.offset);
    if (lines.size() == kNamedMax) continue;
    lines.push_back(
        fmt::format("{} x{}{}", use.type, use.count, use.hint.empty() ? "" : fmt::format(" ({})", use.hint)));
    types.push_back(use.type);
  }
  if (count == 0) return {};
  if (count > kNamedMax) lines.push_back(fmt::format("{} more", count - kNamedMax));
  const bool own = std::ranges::any_of(types, [](const std::string& type) { return type.contains('.'); });
  const std::string_view way_out = own ? "; operators of one's own come with --op-library LIB" : "";
  auto error = fail_at(ErrorCode::unsupported, file, first, "{} operator{} not built yet: {}{}", count,
                       count == 1 ? " is" : "s are", fmt::join(lines, ", "), way_out);
  error.error().op = fmt::format("{}", fmt::join(types, ", "));
  return error;
}

}  // namespace diji::onnx
