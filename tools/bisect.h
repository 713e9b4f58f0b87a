// `diji run --bisect`: whose fault a wrong output is, found, told and written.
#pragma once

#include "runtime/bisect.h"
#include "tools/json.h"
#include "tools/tensor_inputs.h"

#include <filesystem>
#include <functional>
#include <string>

namespace diji::tools {

struct Bisected {
  GuiltyRules guilty;
  std::optional<WrongKernel> kernel;  ///< where no rule is guilty
  /// rule, kernel, runtime (kernels are right alone) or model (by definition the result is what it is).
  std::string blamed;
  std::string sentence;
};

/// Of a model whose outputs are not as expected; `as_expected` compares them. Errors: those of opening and
/// running the model without any rule.
Result<Bisected> bisect(DeviceList& devices, const std::filesystem::path& model,
                        const SessionOptions& options, const NamedTensors& inputs,
                        const std::function<bool(const std::vector<HostTensor>&)>& as_expected);

Json json_of(const Bisected& found);

}  // namespace diji::tools
