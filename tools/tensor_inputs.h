// A model's inputs from files, folders in ONNX's test layout, or made up.
#pragma once

#include "formats/tensor_pb.h"
#include "graph/graph.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace diji::tools {

using NamedTensors = std::map<std::string, HostTensor>;

/// --input NAME=FILE.npy|FILE.pb|random|zeros. Errors: usage.
struct InputSource {
  enum class Kind : std::uint8_t { file, random, zeros };
  std::string name;
  Kind kind = Kind::file;
  std::string file;
};
Result<std::vector<InputSource>> parse_inputs(const std::vector<std::string>& words);

struct InputOptions {
  std::vector<InputSource> sources;
  std::string data_folder;                   ///< holds input_0.pb, ...; "" for none
  std::map<std::string, std::int64_t> dims;  ///< sizes of made-up inputs; others are 1
  std::uint64_t seed = 1;
  std::vector<std::string> taken;  ///< names in the data folder that went into the model already
};

/// What is given for weights that have a default in the file: taken out of `options`, for
/// SessionOptions::overrides. Errors: those of the files, usage (only a file stands in for a default).
Result<NamedTensors> take_overrides(const std::filesystem::path& model, InputOptions& options);

/// Reads the files and makes up the rest; what is named nowhere is left out. Errors: those of the files, a
/// name the model does not have (mismatch, usage for a size), with the nearest.
Result<NamedTensors> make_inputs(const Graph& graph, const InputOptions& options);

/// <stem>_0.pb, <stem>_1.pb, ... as far as they go.
Result<std::vector<NamedTensor>> read_numbered(const std::filesystem::path& folder, std::string_view stem);
/// By the names in the files where the model has them, else by number.
NamedTensors by_name(const std::vector<NamedTensor>& tensors, const std::vector<Port>& ports);

/// Floats in [-1, 1), integers 0 to 9, any bool; depends on (dtype, shape, seed) only.
Result<HostTensor> random_tensor(DType dtype, StaticShape shape, std::uint64_t seed);

}  // namespace diji::tools
