// Operator sets, versions and the list of what is missing.
#include "formats/onnx/coverage.h"

#include "formats/onnx/names.h"
#include "ops/catalog.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace diji::onnx {
namespace {

// Real models lack a dozen at most; a hostile one must not turn into an error of megabytes.
constexpr std::size_t kNamedMax = 256;

struct Missing {
  std::int64_t count = 0;
  std::int64_t offset = 0;  ///< of the first
  std::string hint;
};

class Survey {
 public:
  Survey(const Model& model, const Opsets& opsets) : model_(model), opsets_(opsets) {
    for (const FunctionProto& function : model.functions) {
      functions_.emplace(domain_of(function.domain), function.name);
    }
  }

  Result<void> visit(const GraphProto& graph) {
    for (const NodeProto& node : graph.nodes) {
      if (!opsets_.contains(domain_of(node.domain))) {
        auto error = fail(ErrorCode::malformed, "the model imports no operator set of the domain '{}'",
                          shown(node.domain.empty() ? "ai.onnx" : node.domain));
        return at_node(model_.file, node, std::move(error).error());
      }
      look_at(node);
      for (const AttributeProto& attribute : node.attributes) {
        const auto* body = std::get_if<std::shared_ptr<const GraphProto>>(&attribute.value);
        if (body != nullptr) TRY(visit(**body));  // nesting is bounded by the parser
      }
    }
    return {};
  }

  Result<void> report() const {
    if (missing_.empty()) return {};
    std::vector<std::string> lines, types;
    std::int64_t first = missing_.begin()->second.offset;
    for (const auto& [type, missing] : missing_) {
      first = std::min(first, missing.offset);
      if (lines.size() == kNamedMax) continue;
      lines.push_back(fmt::format("{} x{}{}", type, missing.count, missing.hint));
      types.push_back(type);
    }
    if (missing_.size() > kNamedMax) lines.push_back(fmt::format("{} more", missing_.size() - kNamedMax));
    auto error = fail_at(ErrorCode::unsupported, model_.file, first, "{} operator{} not built yet: {}",
                         missing_.size(), missing_.size() == 1 ? " is" : "s are", fmt::join(lines, ", "));
    error.error().op = fmt::format("{}", fmt::join(types, ", "));
    return error;
  }

 private:
  void look_at(const NodeProto& node) {
    if (is_constant(node)) return;
    const Record record = find_record(node, opsets_);
    const bool is_function = functions_.contains({domain_of(node.domain), node.op_type});
    if (record.op != nullptr && record.version > 0 && !is_function) return;
    Missing& missing = missing_[type_of(node)];
    if (missing.count++ > 0) return;
    missing.offset = node.offset;
    missing.hint =
        is_function ? " (a function of this model; functions are not built yet)" : hint(node, record);
  }

  std::string hint(const NodeProto& node, const Record& record) const {
    if (record.op != nullptr) {
      return fmt::format(" (in operator set {}; versions {} are understood)", opsets_.find("")->second,
                         fmt::join(record.op->onnx.versions, ", "));
    }
    if (!domain_of(node.domain).empty()) return "";
    std::vector<std::string> names;
    for (const OpDef* op : catalog()) {
      if (!op->onnx.type.empty()) names.emplace_back(op->onnx.type);
    }
    const std::string nearest = nearest_hint(node.op_type, names);
    return nearest.empty() ? "" : fmt::format(" ({})", nearest.substr(2));
  }

  const Model& model_;
  const Opsets& opsets_;
  std::set<std::pair<std::string_view, std::string_view>> functions_;
  std::map<std::string, Missing> missing_;
};

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
  Opsets opsets;
  for (const OperatorSetId& opset : model.opsets) {
    const std::string_view domain = domain_of(opset.domain);
    if (opset.version < 1) {
      return fail_at(ErrorCode::malformed, model.file, opset.offset, "operator set '{}' has version {}",
                     shown(domain), opset.version);
    }
    if (domain.empty() && opset.version > kOpsetKnownMax) {
      return fail_at(ErrorCode::unsupported, model.file, opset.offset,
                     "operator set {} of ai.onnx; versions up to {} are understood", opset.version,
                     kOpsetKnownMax);
    }
    const auto [known, is_new] = opsets.emplace(domain, opset.version);
    if (!is_new && known->second != opset.version) {
      return fail_at(ErrorCode::malformed, model.file, opset.offset,
                     "operator set '{}' has versions {} and {}", shown(domain.empty() ? "ai.onnx" : domain),
                     known->second, opset.version);
    }
  }
  if (opsets.empty()) {
    if (model.ir_version >= kIrVersionWithOpsets) {
      return fail_at(ErrorCode::malformed, model.file, 0,
                     "the model imports no operator set: it is cut off or no ONNX model");
    }
    opsets.emplace("", 1);
  }
  return opsets;
}

Record find_record(const NodeProto& node, const Opsets& opsets) {
  Record record;
  if (!domain_of(node.domain).empty()) return record;
  record.op = find_onnx(node.op_type);
  const auto opset = opsets.find("");
  if (record.op == nullptr || opset == opsets.end()) return record;
  for (const std::int64_t version : record.op->onnx.versions) {
    if (version <= opset->second) record.version = std::max(record.version, version);
  }
  return record;
}

bool is_constant(const NodeProto& node) {
  return domain_of(node.domain).empty() && node.op_type == "Constant";
}

Result<void> refuse_unknown(const Model& model, const Opsets& opsets) {
  Survey survey(model, opsets);
  TRY(survey.visit(model.graph));
  return survey.report();
}

}  // namespace diji::onnx
