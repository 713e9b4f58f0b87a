// Names of files, writing that never stops the job, and comparison.
#include "tools/tensor_outputs.h"

#include "base/log.h"
#include "formats/npy.h"
#include "formats/tensor_pb.h"
#include "runtime/conformance.h"

#include <algorithm>

namespace diji::tools {
namespace {

namespace fs = std::filesystem;

std::string sanitised(std::string_view name) {
  constexpr std::string_view kKept = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  std::string result(name);
  std::ranges::replace_if(result, [&](char c) { return kKept.find(c) == std::string_view::npos; }, '_');
  // Names that mean a folder, or nothing.
  return result.empty() || result == "." || result == ".." ? "_" + result : result;
}

// The format's own refusal decides: .npy has no bf16.
Result<std::string> write_output(const fs::path& folder, const std::string& name, const std::string& port,
                                 const HostTensor& tensor) {
  const bool npy = npy_bytes(HostTensor::view(tensor.dtype(), {0}, {}, nullptr)).has_value();
  const fs::path path = folder / (name + (npy ? ".npy" : ".pb"));
  TRY(npy ? write_npy(path, tensor) : write_tensor_pb(path, tensor, port));
  return path.string();
}

}  // namespace

std::vector<std::string> file_names(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) {
    const std::string plain = sanitised(port.name);
    std::string name = plain;
    for (int number = 2; std::ranges::find(names, name) != names.end(); ++number) {
      name = fmt::format("{}_{}", plain, number);
    }
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::optional<std::string>> write_outputs(const fs::path& folder, const std::vector<Port>& ports,
                                                      const std::vector<HostTensor>& outputs) {
  std::vector<std::optional<std::string>> files(ports.size());
  std::error_code status;
  fs::create_directories(folder, status);
  if (status) {
    warn("the outputs are not kept: folder '{}': {}", folder.string(), status.message());
    return files;
  }
  const std::vector<std::string> names = file_names(ports);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    auto written = write_output(folder, names[i], ports[i].name, outputs[i]);
    if (!written) {
      warn("output '{}' and those after it are not kept: {}", ports[i].name, written.error().message);
      return files;
    }
    files[i] = *std::move(written);
  }
  return files;
}

Result<std::vector<HostTensor>> read_expected(const fs::path& folder, const std::vector<Port>& ports) {
  const std::vector<std::string> names = file_names(ports);
  std::vector<HostTensor> expected;
  std::error_code ignored;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    fs::path path = folder / (names[i] + ".npy");
    if (!fs::exists(path, ignored)) path = folder / (names[i] + ".pb");
    if (!fs::exists(path, ignored)) {
      auto error =
          fail(ErrorCode::not_found, "{}: no {}.npy and no {}.pb, which output '{}' is compared with",
               folder.string(), names[i], names[i], ports[i].name);
      error.error().file = folder.string();
      return error;
    }
    expected.push_back(TRY(read_tensor_file(path)));
  }
  return expected;
}

ComparedOutput compare_output(const std::string& name, const HostTensor& got, const HostTensor& wanted,
                              double rtol, double atol) {
  const Comparison comparison = compare_with_tolerance(got, wanted, rtol, atol);
  return {name, comparison.ok, comparison.max_abs_error, comparison.max_rel_error, comparison.problem};
}

Json json_of(const ComparedOutput& compared) {
  return {{"name", compared.name},
          {"ok", compared.ok},
          {"max_abs_error", compared.max_abs_error},
          {"max_rel", compared.max_rel_error},
          {"reason", compared.reason}};
}

std::string preview_of(const HostTensor& tensor) {
  constexpr std::int64_t kShown = 4;
  std::string text;
  for (std::int64_t i = 0; i < std::min(tensor.count(), kShown); ++i) {
    if (i > 0) text += ' ';
    text += is_floating(tensor.dtype()) ? fmt::format("{:.4g}", tensor.as_double(i))
                                        : fmt::format("{:.0f}", tensor.as_double(i));
  }
  return tensor.count() > kShown ? text + " ..." : text;
}

}  // namespace diji::tools
