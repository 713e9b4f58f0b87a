// diji.h over Session.
#include "diji/diji.h"

#include "runtime/c_error.h"
#include "runtime/session.h"

#include <algorithm>
#include <cstddef>

struct diji_model {
  std::unique_ptr<diji::Session> session;
  std::string coverage;
};

struct diji_result {
  std::vector<std::string> names;
  std::vector<diji::HostTensor> outputs;
};

namespace {

using diji::ErrorCode;
using diji::c_api::guarded;
using diji::c_api::usage;

static_assert(static_cast<int>(diji::DType::boolean) == DIJI_BOOL,
              "the dtypes stand in one order on both sides");

// Devices are opened once for all models of the process, and live as long as it: a program may end with
// models that it never freed.
diji::DeviceList& devices(int threads) {
  static auto& list =
      *new diji::DeviceList(diji::built_in_plugins(), threads > 0 ? threads : diji::usable_cores());
  return list;
}

diji::Result<diji::HostTensor> tensor_of(const diji_tensor_view& view) {
  if (view.name == nullptr) return diji::fail(ErrorCode::usage, "an input without a name");
  if (view.dtype > DIJI_BOOL)
    return diji::fail(ErrorCode::usage, "input '{}': {} is not a dtype", view.name,
                      static_cast<int>(view.dtype));
  if ((view.rank > 0 && view.shape == nullptr) || (view.data_bytes > 0 && view.data == nullptr)) {
    return diji::fail(ErrorCode::usage, "input '{}': a null pointer", view.name);
  }
  diji::HostTensor tensor = TRY(diji::HostTensor::allocate(
      static_cast<diji::DType>(view.dtype), diji::StaticShape(view.shape, view.shape + view.rank)));
  if (tensor.bytes().size() != view.data_bytes) {
    return diji::fail(ErrorCode::mismatch, "input '{}': {} bytes given, {} wanted for shape {} of {}",
                      view.name, view.data_bytes, tensor.bytes().size(), diji::text_of(tensor.shape()),
                      name_of(tensor.dtype()));
  }
  const auto* bytes = static_cast<const std::byte*>(view.data);
  std::copy(bytes, bytes + view.data_bytes, tensor.mutable_bytes().begin());
  return tensor;
}

}  // namespace

const char* diji_version(void) { return DIJI_VERSION; }

diji_status_code diji_model_load(const char* path, const diji_load_options* options, diji_model** model) {
  return guarded([&]() -> diji::Result<void> {
    if (path == nullptr || model == nullptr) return usage("diji_model_load: a null pointer");
    if (options != nullptr && options->struct_size < offsetof(diji_load_options, seed))
      return usage("diji_model_load: struct_size is too small");
    diji::SessionOptions session_options;
    if (options != nullptr) {
      if (options->device != nullptr) session_options.device = options->device;
      session_options.memory_limit_bytes = options->memory_limit_bytes;
      if (options->struct_size >= sizeof(diji_load_options)) session_options.seed = options->seed;
    }
    auto loaded = std::make_unique<diji_model>();
    loaded->session =
        TRY(diji::Session::open(devices(options == nullptr ? 0 : options->threads), path, session_options));
    loaded->coverage = loaded->session->coverage().line();
    *model = loaded.release();
    return {};
  });
}

void diji_model_free(diji_model* model) { delete model; }

size_t diji_model_input_count(const diji_model* model) {
  if (model == nullptr) return 0;
  return model->session->inputs().size();
}
size_t diji_model_output_count(const diji_model* model) {
  if (model == nullptr) return 0;
  return model->session->outputs().size();
}

const char* diji_model_input_name(const diji_model* model, size_t index) {
  if (model == nullptr) return nullptr;
  const auto ports = model->session->inputs();
  return index < ports.size() ? ports[index].name.c_str() : nullptr;
}

const char* diji_model_output_name(const diji_model* model, size_t index) {
  if (model == nullptr) return nullptr;
  const auto& ports = model->session->outputs();
  return index < ports.size() ? ports[index].name.c_str() : nullptr;
}

const char* diji_model_coverage(const diji_model* model) {
  if (model == nullptr) return "";
  return model->coverage.c_str();
}

diji_status_code diji_model_run(diji_model* model, const diji_tensor_view* inputs, size_t input_count,
                                diji_result** result) {
  return guarded([&]() -> diji::Result<void> {
    if (model == nullptr || result == nullptr || (input_count > 0 && inputs == nullptr))
      return usage("diji_model_run: a null pointer");
    std::map<std::string, diji::HostTensor> tensors;
    for (size_t i = 0; i < input_count; ++i) {
      auto tensor = TRY(tensor_of(inputs[i]));
      if (!tensors.emplace(inputs[i].name, std::move(tensor)).second)
        return usage(fmt::format("input '{}' is given twice", inputs[i].name));
    }
    auto owned = std::make_unique<diji_result>();
    for (const diji::Port& port : model->session->outputs()) owned->names.push_back(port.name);
    owned->outputs = TRY(model->session->run(tensors));
    *result = owned.release();
    return {};
  });
}

void diji_result_free(diji_result* result) { delete result; }

diji_status_code diji_result_output(const diji_result* result, size_t index, diji_tensor_view* output) {
  return guarded([&]() -> diji::Result<void> {
    if (result == nullptr || output == nullptr) return usage("diji_result_output: a null pointer");
    if (index >= result->outputs.size())
      return usage(fmt::format("output {} of {}", index, result->outputs.size()));
    const diji::HostTensor& tensor = result->outputs[index];
    *output = {.name = result->names[index].c_str(),
               .dtype = static_cast<diji_dtype>(tensor.dtype()),
               .shape = tensor.shape().data(),
               .rank = tensor.shape().size(),
               .data = tensor.bytes().data(),
               .data_bytes = tensor.bytes().size()};
    return {};
  });
}
