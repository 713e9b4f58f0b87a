// The import, step by step: versions, operators, order, constants, inputs, nodes, outputs.
#include "formats/onnx/import.h"

#include "base/checksum.h"
#include "base/files.h"
#include "base/log.h"
#include "formats/onnx/attribute.h"
#include "formats/onnx/coverage.h"
#include "formats/onnx/inputs.h"
#include "formats/onnx/names.h"
#include "formats/onnx/nodes.h"
#include "formats/onnx/order.h"
#include "formats/onnx/special.h"
#include "formats/onnx/tensor.h"
#include "ops/random_numbers.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <utility>

namespace diji {
namespace onnx {
namespace {

class Importer {
 public:
  Importer(const Model& model, Source& source, const ImportOptions& options)
      : model_(model), source_(source), options_(options), inputs_(model, options), body_(result_.graph) {
    result_.graph.stretches = options.stretches;
  }

  Result<ImportedModel> run() {
    opsets_ = TRY(read_opsets(model_));
    if (const auto opset = opsets_.find(""); opset != opsets_.end()) result_.opset = opset->second;
    TRY(read_facts());
    const FunctionTable functions = TRY(FunctionTable::of(model_));
    NodeOrder order = TRY(order_nodes(model_.graph, model_.file));
    if (!options_.known.empty() || !options_.only.empty()) keep_needed(order);
    TRY(inputs_.bind_options());
    // Broken weights come before what diji lacks; operators it lacks before kinds of weights it lacks.
    const Result<void> weights = add_initializers();
    if (!weights && weights.error().code != ErrorCode::unsupported) return std::unexpected(weights.error());
    TRY(refuse_missing(TRY(survey(model_, opsets_, functions, options_.custom_ops)), model_.file));
    TRY(weights);
    TRY(add_inputs());
    NodeImporter nodes(model_, source_, functions, options_.custom_ops);
    for (const auto& [name, value] : options_.known) {
      scope_.values[name] = {Tensor{.id = result_.graph.add_constant(value)}};
      nodes.keep_given(name);
    }
    TRY(nodes.add_nodes(model_.graph, order, scope_));
    if (nodes.sorted()) add_warning("its nodes are not in order; they were sorted");
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
      Tensor value{.packed = packed_type(tensor.data_type)};
      const HostTensor* other = inputs_.override_of(tensor.name);
      value.id = result_.graph.add_constant(other != nullptr ? *other : TRY(tensor_value(tensor, source_)));
      scope_.values[tensor.name] = {value};
    }
    return {};
  }

  Result<void> add_inputs() {
    for (const ValueInfoProto& info : model_.graph.inputs) {
      if (info.name == kRandomKey) {
        return fail_at(ErrorCode::unsupported, model_.file, info.offset,
                       "an input is called '{}', which is diji's own", kRandomKey);
      }
      if (scope_.values.contains(info.name)) {
        result_.defaulted_inputs.emplace_back(info.name);
      } else if (const auto given = options_.constants.find(std::string(info.name));
                 given != options_.constants.end()) {
        scope_.values[info.name] = {
            Tensor{.id = result_.graph.add_constant(given->second), .packed = packed_type(info.data_type)}};
      } else {
        const Type type = TRY(inputs_.type_of_input(info));
        scope_.values[info.name] = {Tensor{.id = result_.graph.add_input(std::string(info.name), type),
                                           .packed = packed_type(info.data_type)}};
      }
    }
    return {};
  }

  // Leaves out nodes of which no output is wanted, or only such as are known.
  void keep_needed(NodeOrder& order) const {
    std::set<std::string_view> wanted(options_.only.begin(), options_.only.end());
    if (wanted.empty()) {
      for (const ValueInfoProto& output : model_.graph.outputs) wanted.insert(output.name);
    }
    std::vector<std::size_t> needed;
    for (const std::size_t index : std::views::reverse(order.nodes)) {
      const NodeProto& node = model_.graph.nodes[index];
      const bool is_needed = std::ranges::any_of(node.outputs, [&](std::string_view output) {
        return wanted.contains(output) && !options_.known.contains(std::string(output));
      });
      if (!is_needed) continue;
      needed.push_back(index);
      wanted.merge(names_read(node));
    }
    order.nodes.assign(needed.rbegin(), needed.rend());
  }

  Result<void> add_outputs() {
    if (model_.graph.outputs.empty()) {
      return fail_at(ErrorCode::malformed, model_.file, model_.graph.offset, "the graph has no outputs");
    }
    for (const ValueInfoProto& info : model_.graph.outputs) {
      if (options_.only.empty()) TRY(add_output(info, scope_.find(info.name)));
    }
    for (const std::string& name : options_.only) TRY(add_output({.name = name}, scope_.find(name)));
    return {};
  }

  // A sequence of known length is a port for each of its tensors, "name[0]" the first.
  Result<void> add_output(const ValueInfoProto& info, const Imported& value) {
    if (const auto* optional = std::get_if<Optional>(&value.value);
        optional != nullptr && optional->content) {
      return add_output(info, *optional->content);
    }
    if (const auto* sequence = std::get_if<Sequence>(&value.value)) {
      for (std::size_t i = 0; i < sequence->items.size(); ++i) {
        TRY(add_port(info, fmt::format("{}[{}]", info.name, i), sequence->items[i]));
      }
      return {};
    }
    const auto* tensor = std::get_if<Tensor>(&value.value);
    if (tensor == nullptr || tensor->id == ValueId::none) {
      return fail_at(ErrorCode::unsupported, model_.file, info.offset,
                     "output '{}' is an optional without an element, which is not built yet",
                     shown(info.name));
    }
    if (info.kind == "tensor" || info.kind == kOptionalTensor || info.kind.empty()) {
      TRY(compare_declared(info, result_.graph.type(tensor->id)));
    } else if (info.kind != "optional") {
      return fail_at(ErrorCode::malformed, model_.file, info.offset,
                     "output '{}' is declared as {} and is {}", shown(info.name), info.kind,
                     text_of(result_.graph.type(tensor->id)));
    }
    return add_port(info, std::string(info.name), *tensor);
  }

  Result<void> add_port(const ValueInfoProto& info, std::string name, const Tensor& tensor) {
    if (tensor.packed != 0 && !info.kind.empty() && info.data_type != tensor.packed) {
      return fail_at(ErrorCode::malformed, model_.file, info.offset, "output '{}' is {}, declared otherwise",
                     shown(info.name), kDataTypes[static_cast<std::size_t>(tensor.packed)].name);
    }
    if (!port_names_.insert(name).second) {
      return fail_at(ErrorCode::malformed, model_.file, info.offset, "output '{}' stands twice", shown(name));
    }
    result_.graph.add_output(std::move(name), tensor.id);
    return {};
  }

  // A declared dtype is part of the model's contract; declared shapes are wrong in models that people use.
  Result<void> compare_declared(const ValueInfoProto& info, const Type& type) {
    if (info.kind.empty()) return {};
    const std::string what = fmt::format("output '{}'", shown(info.name));
    const DType dtype = TRY(storage_of_number(info.data_type, what, model_.file, info.offset));
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
      add_warning("{} is declared as [{}] and is {}", what,
                  shown(fmt::format("{}", fmt::join(declared, ", "))), shown(text_of(type)));
    }
    return {};
  }

  const Model& model_;
  Source& source_;
  const ImportOptions& options_;
  InputTypes inputs_;
  ImportedModel result_;
  Body body_;
  Opsets opsets_;
  Scope scope_{body_, opsets_};
  std::set<std::string> port_names_;
};

Result<ImportedModel> import(std::span<const std::byte> bytes, Source source, const ImportOptions& options) {
  const Model model = TRY(parse_model(bytes, source.file));
  ImportedModel result = TRY(Importer(model, source, options).run());
  std::vector<std::span<const std::byte>> parts = {bytes};
  parts.insert(parts.end(), source.external.used().begin(), source.external.used().end());
  result.digest = digest_of(parts, source.mapped ? Behind::forget_pages : Behind::keep);
  result.external_files = source.external.files();
  return result;
}

// The parts of a file that need no import.
template <typename Visitor>
auto with_model(const std::filesystem::path& path, const Visitor& visit)
    -> decltype(visit(std::declval<const Model&>())) {
  const std::shared_ptr<const MappedFile> file = TRY(MappedFile::open(path));
  const Model model = TRY(parse_model(file->bytes(), file->path()));
  return visit(model);
}

}  // namespace
}  // namespace onnx

Result<ImportedModel> read_onnx(const std::filesystem::path& path, const ImportOptions& options) {
  const std::shared_ptr<const MappedFile> file = TRY(MappedFile::open(path));
  return onnx::import(file->bytes(), {file->path(), file, onnx::ExternalFiles(path.parent_path()), {}, true},
                      options);
}

Result<std::vector<OperatorUse>> survey_onnx(const std::filesystem::path& path,
                                             std::span<const OpDef* const> custom_ops) {
  return onnx::with_model(path, [&](const onnx::Model& model) -> Result<std::vector<OperatorUse>> {
    const onnx::Opsets opsets = TRY(onnx::read_opsets(model));
    const onnx::FunctionTable functions = TRY(onnx::FunctionTable::of(model));
    return onnx::survey(model, opsets, functions, custom_ops);
  });
}

std::map<std::string, std::int64_t> importer_operators() {
  std::map<std::string, std::int64_t> all;
  for (const onnx::SpecialOp& op : onnx::special_ops()) all.emplace(op.type, op.since);
  return all;
}

Result<std::vector<std::string>> defaulted_inputs_of(const std::filesystem::path& path) {
  return onnx::with_model(path, [](const onnx::Model& model) -> Result<std::vector<std::string>> {
    std::set<std::string_view> initializers;
    for (const onnx::TensorProto& tensor : model.graph.initializers) initializers.insert(tensor.name);
    std::vector<std::string> names;
    for (const onnx::ValueInfoProto& input : model.graph.inputs) {
      if (initializers.contains(input.name)) names.emplace_back(input.name);
    }
    return names;
  });
}

Result<std::vector<std::string>> output_names_of(const std::filesystem::path& path) {
  return onnx::with_model(path, [](const onnx::Model& model) -> Result<std::vector<std::string>> {
    std::vector<std::string> names;
    for (const onnx::ValueInfoProto& output : model.graph.outputs) names.emplace_back(output.name);
    return names;
  });
}

Result<ImportedModel> read_onnx_bytes(std::vector<std::byte> bytes, const std::string& name,
                                      const ImportOptions& options) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return onnx::import(*owner, {name, owner, {}}, options);
}

}  // namespace diji
