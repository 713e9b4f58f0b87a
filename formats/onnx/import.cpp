// The import, step by step: versions, operators, order, constants, inputs, nodes, outputs.
#include "formats/onnx/import.h"

#include "base/files.h"
#include "base/log.h"
#include "formats/onnx/attribute.h"
#include "formats/onnx/coverage.h"
#include "formats/onnx/digest.h"
#include "formats/onnx/inputs.h"
#include "formats/onnx/names.h"
#include "formats/onnx/order.h"
#include "formats/onnx/tensor.h"
#include "graph/builder.h"

#include <algorithm>
#include <set>
#include <utility>

namespace diji {
namespace onnx {
namespace {

class Importer {
 public:
  Importer(const Model& model, Source& source, const ImportOptions& options)
      : model_(model), source_(source), options_(options), inputs_(model, options), builder_(result_.graph) {}

  Result<ImportedModel> run() {
    opsets_ = TRY(read_opsets(model_));
    if (const auto opset = opsets_.find(""); opset != opsets_.end()) result_.opset = opset->second;
    TRY(read_facts());
    const NodeOrder order = TRY(order_nodes(model_.graph, model_.file));
    if (!order.was_sorted) add_warning("its nodes are not in order; they were sorted");
    TRY(inputs_.bind_options());
    // Broken weights come before what diji lacks; operators it lacks before kinds of weights it lacks.
    const Result<void> weights = add_initializers();
    if (!weights && weights.error().code != ErrorCode::unsupported) return std::unexpected(weights.error());
    TRY(refuse_unknown(model_, opsets_));
    TRY(weights);
    TRY(add_inputs());
    for (const std::size_t index : order.nodes) TRY(add_node(model_.graph.nodes[index]));
    TRY(add_outputs());
    return std::move(result_);
  }

 private:
  template <typename... Args>
  void add_warning(fmt::format_string<Args...> format, Args&&... args) {
    result_.warnings.push_back(
        fmt::format("{}: {}", model_.file, fmt::format(format, std::forward<Args>(args)...)));
    warn("{}", result_.warnings.back());
  }

  Result<void> read_facts() {
    result_.ir_version = model_.ir_version;
    result_.producer = std::string(model_.producer_name);
    if (!model_.producer_version.empty()) result_.producer += fmt::format(" {}", model_.producer_version);
    if (!model_.graph.name.empty()) result_.graph.name = std::string(model_.graph.name);
    for (const StringEntry& entry : model_.metadata) {
      if (!result_.metadata.emplace(entry.key, entry.value).second) {
        return fail_at(ErrorCode::malformed, model_.file, entry.offset, "metadata '{}' stands twice",
                       shown(entry.key));
      }
    }
    return {};
  }

  Result<void> add_initializers() {
    if (model_.graph.sparse_initializers) {
      return fail_at(ErrorCode::unsupported, model_.file, model_.graph.offset,
                     "sparse initializers are not built yet");
    }
    for (const TensorProto& tensor : model_.graph.initializers) {
      if (options_.constants.contains(std::string(tensor.name))) continue;  // add_inputs takes the caller's
      values_[tensor.name] = result_.graph.add_constant(TRY(tensor_value(tensor, source_)));
    }
    return {};
  }

  Result<void> add_inputs() {
    for (const ValueInfoProto& info : model_.graph.inputs) {
      if (values_.contains(info.name)) {
        result_.defaulted_inputs.emplace_back(info.name);
      } else if (const auto given = options_.constants.find(std::string(info.name));
                 given != options_.constants.end()) {
        values_[info.name] = result_.graph.add_constant(given->second);
      } else {
        values_[info.name] =
            result_.graph.add_input(std::string(info.name), TRY(inputs_.type_of_input(info)));
      }
    }
    return {};
  }

  Result<void> add_node(const NodeProto& node) {
    if (is_constant(node)) {
      HostTensor value = TRY(constant_value(node, source_));
      return bind_outputs(node, {result_.graph.add_constant(std::move(value))});
    }
    const Record record = find_record(node, opsets_);
    ForeignNode call{.version = record.version,
                     .attributes = TRY(read_attributes(node, *record.op, source_)),
                     .outputs = node.outputs.size()};
    for (const std::string_view input : node.inputs) {
      call.inputs.push_back(input.empty() ? ValueId::none : values_.at(input));
    }
    while (!call.inputs.empty() && call.inputs.back() == ValueId::none) call.inputs.pop_back();
    if (record.op->onnx.adapt != nullptr) {
      if (auto adapted = record.op->onnx.adapt(builder_, call); !adapted) {
        return at_node(model_.file, node, std::move(adapted).error());
      }
    }
    TRY(check_known(node, *record.op, call.attributes, model_.file));
    const Values outputs =
        builder_.call(*record.op, std::move(call.inputs), std::move(call.attributes), std::string(node.name));
    if (auto status = builder_.status(); !status)
      return at_node(model_.file, node, std::move(status).error());
    return bind_outputs(node, outputs);
  }

  Result<void> bind_outputs(const NodeProto& node, const Values& outputs) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (i >= outputs.size()) {
        auto error = fail(ErrorCode::unsupported, "output {} ('{}') is wanted, {} are built", i,
                          shown(node.outputs[i]), outputs.size());
        return at_node(model_.file, node, std::move(error).error());
      }
      const Shape& shape = result_.graph.type(outputs[i]).shape;
      if (!std::ranges::all_of(shape, &Dim::is_valid)) {
        auto error =
            fail(ErrorCode::malformed, "a size of '{}' does not fit 64 bits", shown(node.outputs[i]));
        return at_node(model_.file, node, std::move(error).error());
      }
      values_[node.outputs[i]] = outputs[i];
    }
    return {};
  }

  Result<void> add_outputs() {
    if (model_.graph.outputs.empty()) {
      return fail_at(ErrorCode::malformed, model_.file, model_.graph.offset, "the graph has no outputs");
    }
    std::set<std::string_view> names;
    for (const ValueInfoProto& info : model_.graph.outputs) {
      if (!names.insert(info.name).second) {
        return fail_at(ErrorCode::malformed, model_.file, info.offset, "output '{}' stands twice",
                       shown(info.name));
      }
      const ValueId id = values_.at(info.name);
      TRY(compare_declared(info, result_.graph.type(id)));
      result_.graph.add_output(std::string(info.name), id);
    }
    return {};
  }

  // A declared dtype is part of the model's contract; declared shapes are wrong in models that people use.
  Result<void> compare_declared(const ValueInfoProto& info, const Type& type) {
    if (info.kind.empty()) return {};
    const std::string what = fmt::format("output '{}'", shown(info.name));
    if (info.kind != "tensor") {
      return fail_at(ErrorCode::malformed, model_.file, info.offset, "{} is declared as {} and is {}", what,
                     info.kind, text_of(type));
    }
    const DType dtype = TRY(dtype_of_number(info.data_type, what, model_.file, info.offset));
    if (dtype != type.dtype) {
      return fail_at(ErrorCode::malformed, model_.file, info.offset, "{} is declared as {} and is {}", what,
                     name_of(dtype), text_of(type));
    }
    if (!info.dims) return {};
    bool fits = info.dims->size() == type.shape.size();
    for (std::size_t axis = 0; fits && axis < type.shape.size(); ++axis) {
      const auto size = type.shape[axis].constant();
      fits = !size || (*info.dims)[axis].value.value_or(*size) == *size || (*info.dims)[axis].value == -1;
    }
    if (!fits) {
      std::vector<std::string> declared;
      for (const DimensionProto& dim : *info.dims) {
        declared.push_back(dim.value           ? fmt::format("{}", *dim.value)
                           : dim.param.empty() ? "?"
                                               : shown(dim.param));
      }
      add_warning("{} is declared as [{}] and is {}", what, fmt::join(declared, ", "), text_of(type));
    }
    return {};
  }

  const Model& model_;
  Source& source_;
  const ImportOptions& options_;
  InputTypes inputs_;
  ImportedModel result_;
  Builder builder_;
  Opsets opsets_;
  std::map<std::string_view, ValueId> values_;
};

Result<ImportedModel> import(std::span<const std::byte> bytes, Source source, const ImportOptions& options) {
  const Model model = TRY(parse_model(bytes, source.file));
  ImportedModel result = TRY(Importer(model, source, options).run());
  std::vector<std::span<const std::byte>> parts = {bytes};
  parts.insert(parts.end(), source.external.used().begin(), source.external.used().end());
  result.digest = digest_of(parts);
  return result;
}

}  // namespace
}  // namespace onnx

Result<ImportedModel> read_onnx(const std::filesystem::path& path, const ImportOptions& options) {
  const std::shared_ptr<const MappedFile> file = TRY(MappedFile::open(path));
  return onnx::import(file->bytes(), {file->path(), file, onnx::ExternalFiles(path.parent_path())}, options);
}

Result<ImportedModel> read_onnx_bytes(std::vector<std::byte> bytes, const std::string& name,
                                      const ImportOptions& options) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return onnx::import(*owner, {name, owner, {}}, options);
}

}  // namespace diji
