// Facts about devices and sentences about failures.
#include "plugins/opencl/opencl_device.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace diji::opencl {
namespace {

thread_local char last_sentence[512];

std::string text_of(cl_device_id id, cl_device_info what) {
  std::size_t bytes = 0;
  if (api()->get_device_info(id, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string text(bytes, '\0');
  if (api()->get_device_info(id, what, bytes, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(std::min(text.find('\0'), text.size()));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

template <typename T>
T number_of(cl_device_id id, cl_device_info what) {
  T value{};
  api()->get_device_info(id, what, sizeof(value), &value, nullptr);
  return value;
}

// The extensions that say what a device can compute with.
std::string features_of(const std::string& extensions) {
  std::istringstream words(extensions);
  std::string word, result;
  while (words >> word) {
    if (word.starts_with("cl_khr_fp") || word.starts_with("cl_khr_int64") ||
        word.starts_with("cl_khr_subgroups"))
      result += (result.empty() ? "" : " ") + word;
  }
  return result;
}

// Compilers for CPUs take whole vectors, others run neighbouring work-items in lockstep, if groups may be
// large enough. DIJI_OPENCL_STYLE=simt makes a CPU show what its kernels for lockstep are worth.
bool runs_in_lockstep(cl_device_id id, bool is_cpu) {
  const char* style = std::getenv("DIJI_OPENCL_STYLE");
  const bool asked = style != nullptr && std::string_view(style) == "simt";
  return (!is_cpu || asked) && number_of<std::size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE) >= DIJI_SIMT_GROUP;
}

// Register width.
std::uint32_t vector_bytes_of(cl_device_id id, bool simt) {
  if (simt) return 4;
  const auto width = number_of<cl_uint>(id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
  return std::bit_floor(std::clamp<std::uint32_t>(width, 1, 16)) * 4;
}

DeviceFacts facts_of(cl_platform_id platform, cl_device_id id) {
  DeviceFacts facts{.platform = platform, .id = id};
  facts.name = text_of(id, CL_DEVICE_NAME);
  facts.vendor = text_of(id, CL_DEVICE_VENDOR);
  facts.driver = text_of(id, CL_DEVICE_VERSION) + ", driver " + text_of(id, CL_DRIVER_VERSION);
  facts.features = features_of(text_of(id, CL_DEVICE_EXTENSIONS));
  facts.fingerprint = facts.name + ", " + facts.driver;
  facts.is_cpu = (number_of<cl_device_type>(id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
  facts.simt = runs_in_lockstep(id, facts.is_cpu);
  facts.memory_bytes = number_of<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  facts.allocation_max = number_of<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  facts.argument_bytes_max = number_of<std::size_t>(id, CL_DEVICE_MAX_PARAMETER_SIZE);
  facts.compute_units = std::max<cl_uint>(number_of<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS), 1);
  const auto align_bits = number_of<cl_uint>(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN);
  facts.alignment = std::bit_floor(std::clamp<std::uint32_t>(align_bits / 8, 4, 4096));
  facts.vector_bytes = vector_bytes_of(id, facts.simt);
  facts.compiles_at_launch = facts.driver.contains("PoCL");
  facts.has_f64 = number_of<cl_device_fp_config>(id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  facts.rounds_division = (number_of<cl_device_fp_config>(id, CL_DEVICE_SINGLE_FP_CONFIG) &
                           CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  return facts;
}

std::vector<DeviceFacts> find_devices() {
  constexpr cl_uint kMost = 64;
  std::vector<DeviceFacts> all;
  cl_platform_id platforms[kMost];
  cl_uint platform_count = 0;
  if (api() == nullptr || api()->get_platform_ids(kMost, platforms, &platform_count) != CL_SUCCESS)
    return all;
  for (cl_uint p = 0; p < std::min(platform_count, kMost); ++p) {
    cl_device_id devices[kMost];
    cl_uint count = 0;
    if (api()->get_device_ids(platforms[p], CL_DEVICE_TYPE_ALL, kMost, devices, &count) != CL_SUCCESS)
      continue;
    for (cl_uint d = 0; d < std::min(count, kMost); ++d) all.push_back(facts_of(platforms[p], devices[d]));
  }
  return all;
}

diji_status status_of(cl_int error) {
  switch (error) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_BUFFER_SIZE: return DIJI_ERROR_OUT_OF_MEMORY;
    case CL_BUILD_PROGRAM_FAILURE: return DIJI_ERROR_COMPILE;
    case CL_INVALID_BINARY: return DIJI_ERROR_INVALID;
    case CL_INVALID_KERNEL_NAME: return DIJI_ERROR_UNSUPPORTED;
    default: return DIJI_ERROR_DEVICE;
  }
}

}  // namespace

const std::vector<DeviceFacts>& all_devices() {
  static const std::vector<DeviceFacts> devices = find_devices();
  return devices;
}

diji_status fail(diji_status status, const std::string& sentence) {
  std::snprintf(last_sentence, sizeof(last_sentence), "%s", sentence.c_str());
  return status;
}

diji_status checked(cl_int error, const char* what) {
  return error == CL_SUCCESS ? DIJI_OK
                             : fail(status_of(error), std::string(what) + ": " + name_of_error(error));
}

const char* last_error() { return last_sentence; }

}  // namespace diji::opencl
