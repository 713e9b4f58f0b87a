// Where inputs come from, and which sizes made-up ones have.
#include "tools/tensor_inputs.h"

#include "formats/onnx/import.h"
#include "runtime/session.h"
#include "tools/arguments.h"

#include <algorithm>
#include <array>

namespace diji::tools {
namespace {

std::vector<std::string> names_of(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  return names;
}

// SplitMix64 (Steele, Lea, Flood 2014, figure 11): the n-th number without the ones before it.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t n) {
  std::uint64_t z = seed * 0xd1342543de82ef95U + n * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

Result<void> check_names(const Graph& graph, const InputOptions& options) {
  const std::vector<std::string> names = names_of(graph.inputs());
  for (const InputSource& source : options.sources) {
    if (std::ranges::find(names, source.name) != names.end()) continue;
    return fail(ErrorCode::mismatch, "the model has no input '{}'{}; its inputs are {}", source.name,
                did_you_mean(source.name, names), fmt::join(names, ", "));
  }
  std::vector<std::string> symbols;
  for (const auto& [symbol, bounds] : graph.symbols()) symbols.push_back(symbol);
  for (const auto& [symbol, size] : options.dims) {
    if (std::ranges::find(symbols, symbol) != symbols.end()) continue;
    return fail(ErrorCode::usage, "--dim: the model has no size '{}'{}; {}", symbol,
                did_you_mean(symbol, symbols),
                symbols.empty() ? "all its sizes are fixed"
                                : fmt::format("its sizes are {}", fmt::join(symbols, ", ")));
  }
  return {};
}

// A model may have no input, so a folder with an expectation alone will do.
Result<void> check_data_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / "input_0.pb", ignored)) return {};
  if (std::filesystem::exists(folder / "output_0.pb", ignored)) return {};
  auto error = fail(ErrorCode::not_found, "{}: no input_0.pb and no output_0.pb", folder.string());
  error.error().file = folder.string();
  return error;
}

// Every symbol's size: what given tensors have, then --dim, then the smallest size that is allowed, at
// least 1.
Result<Bindings> sizes_of(const Graph& graph, const NamedTensors& given, const InputOptions& options) {
  Bindings sizes;
  for (const Port& port : graph.inputs()) {
    const auto tensor = given.find(port.name);
    const Shape& shape = graph.type(port.value).shape;
    if (tensor == given.end() || tensor->second.shape().size() != shape.size())
      continue;  // the run refuses it
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (const auto symbol = shape[axis].symbol_name()) sizes.emplace(*symbol, tensor->second.shape()[axis]);
    }
  }
  for (const auto& [symbol, size] : options.dims) {
    const auto [known, added] = sizes.emplace(symbol, size);
    if (!added && known->second != size) {
      return fail(ErrorCode::usage, "--dim: {}={}, but the inputs given have {}", symbol, size,
                  known->second);
    }
  }
  for (const auto& [symbol, bounds] : graph.symbols()) {
    sizes.emplace(symbol, std::max<std::int64_t>(bounds.min, std::min<std::int64_t>(1, bounds.max)));
  }
  return sizes;
}

Result<HostTensor> made_up(const Graph& graph, const Port& port, const Bindings& sizes,
                           InputSource::Kind kind, std::uint64_t seed) {
  const Type& type = graph.type(port.value);
  StaticShape shape;
  for (const Dim& dim : type.shape) {
    auto size = dim.evaluate(sizes);
    if (!size) return in_context(fmt::format("input '{}'", port.name), std::move(size).error());
    shape.push_back(*size);
  }
  if (kind == InputSource::Kind::zeros) return HostTensor::allocate(type.dtype, std::move(shape));
  return random_tensor(type.dtype, std::move(shape), seed);
}

}  // namespace

Result<std::vector<InputSource>> parse_inputs(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 2> kMadeUp = {"random", "zeros"};
  std::vector<InputSource> sources;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail(ErrorCode::usage,
                  "--input: '{}' is not NAME=FILE.npy, NAME=FILE.pb, NAME=random or NAME=zeros", word);
    }
    InputSource source{.name = word.substr(0, equals), .file = word.substr(equals + 1)};
    if (std::ranges::find(sources, source.name, &InputSource::name) != sources.end()) {
      return fail(ErrorCode::usage, "--input: '{}' is given twice", source.name);
    }
    if (source.file == "random" || source.file == "zeros") {
      source.kind = source.file == "random" ? InputSource::Kind::random : InputSource::Kind::zeros;
    } else if (!source.file.ends_with(".npy") && !source.file.ends_with(".pb")) {
      const std::vector<std::string> made_up_names(kMadeUp.begin(), kMadeUp.end());
      return fail(ErrorCode::usage,
                  "--input {}: '{}' is no file named .npy or .pb, and neither random nor zeros{}",
                  source.name, source.file, did_you_mean(source.file, made_up_names));
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

Result<NamedTensors> take_overrides(const std::filesystem::path& model, InputOptions& options) {
  NamedTensors overrides;
  if (model.extension() != ".onnx" || (options.sources.empty() && options.data_folder.empty()))
    return overrides;
  const std::vector<std::string> defaulted = TRY(defaulted_inputs_of(model));
  const auto has_default = [&](const std::string& name) {
    return std::ranges::find(defaulted, name) != defaulted.end();
  };
  if (!options.data_folder.empty() && !defaulted.empty()) {
    for (NamedTensor& tensor : TRY(read_numbered(options.data_folder, "input"))) {
      if (!has_default(tensor.name)) continue;
      options.taken.push_back(tensor.name);
      overrides.insert_or_assign(tensor.name, std::move(tensor.tensor));
    }
  }
  for (const InputSource& source : options.sources) {
    if (!has_default(source.name)) continue;
    if (source.kind != InputSource::Kind::file) {
      return fail(ErrorCode::usage, "--input {}: it has a default in the model, which only a file replaces",
                  source.name);
    }
    overrides.insert_or_assign(source.name, TRY(read_tensor_file(source.file)));
  }
  std::erase_if(options.sources, [&](const InputSource& source) { return has_default(source.name); });
  return overrides;
}

Result<NamedTensors> make_inputs(const Graph& graph, const InputOptions& options) {
  TRY(check_names(graph, options));
  NamedTensors tensors;
  if (!options.data_folder.empty()) {
    TRY(check_data_folder(options.data_folder));
    auto numbered = TRY(read_numbered(options.data_folder, "input"));
    std::erase_if(numbered, [&](const NamedTensor& tensor) {
      return std::ranges::find(options.taken, tensor.name) != options.taken.end();
    });
    tensors = by_name(numbered, graph.inputs());
  }
  for (const InputSource& source : options.sources) {
    if (source.kind == InputSource::Kind::file) {
      tensors.insert_or_assign(source.name, TRY(read_tensor_file(source.file)));
    } else {
      tensors.erase(source.name);
    }
  }
  // Said and shown like any input: what --seed decides.
  if (draws(graph)) tensors = with_key(std::move(tensors), options.seed, 0);
  const Bindings sizes = TRY(sizes_of(graph, tensors, options));
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Port& port = graph.inputs()[i];
    const auto source = std::ranges::find(options.sources, port.name, &InputSource::name);
    if (source == options.sources.end() || source->kind == InputSource::Kind::file) continue;
    tensors.emplace(port.name, TRY(made_up(graph, port, sizes, source->kind, options.seed + i)));
  }
  return tensors;
}

Result<std::vector<NamedTensor>> read_numbered(const std::filesystem::path& folder, std::string_view stem) {
  std::vector<NamedTensor> tensors;
  std::error_code ignored;
  while (true) {
    const auto path = folder / fmt::format("{}_{}.pb", stem, tensors.size());
    if (!std::filesystem::exists(path, ignored)) return tensors;
    tensors.push_back(TRY(read_tensor_pb(path)));
  }
}

NamedTensors by_name(const std::vector<NamedTensor>& tensors, const std::vector<Port>& ports) {
  NamedTensors named;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto port = std::ranges::find(ports, tensors[i].name, &Port::name);
    // A number without a port gets a name that no model has, so that the run refuses it.
    const std::string numbered = i < ports.size() ? ports[i].name : fmt::format("input number {}", i);
    named.insert_or_assign(port != ports.end() ? port->name : numbered, tensors[i].tensor);
  }
  return named;
}

Result<HostTensor> random_tensor(DType dtype, StaticShape shape, std::uint64_t seed) {
  HostTensor tensor = TRY(HostTensor::allocate(dtype, std::move(shape)));
  visit_dtype(dtype, [&]<typename T>(TypeTag<T>) {
    std::uint64_t n = 0;
    for (T& element : tensor.mutable_values<T>()) {
      const std::uint64_t bits = random_bits(seed, n++);
      if constexpr (std::is_same_v<T, bool>) {
        element = (bits >> 63) != 0;
      } else if constexpr (std::is_integral_v<T>) {
        element = static_cast<T>((bits >> 32) % 10);
      } else {
        // 2^-52 times an integer below 2^53, minus 1: exact in a double.
        element = static_cast<T>(static_cast<double>(bits >> 11) * 0x1p-52 - 1.0);
      }
    }
  });
  return tensor;
}

}  // namespace diji::tools
