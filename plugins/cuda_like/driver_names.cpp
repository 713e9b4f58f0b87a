// One row a maker: libraries, the names of their functions, chips and options.
#include "plugins/cuda_like/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace diji::cuda_like {
namespace {

using Names = const char*;

// ---- NVIDIA: CUDA 11.1 or later (cubins from NVRTC)

constexpr std::array<Names, 1> kCudaDriver = {"libcuda.so.1"};
constexpr std::array<Names, 4> kCudaCompiler = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                                "libnvrtc.so"};
constexpr std::array<Names, kDriverFunctions> kCudaNames = {"cuInit",
                                                            "cuDriverGetVersion",
                                                            "cuDeviceGetCount",
                                                            "cuDeviceGet",
                                                            "cuDeviceGetName",
                                                            "cuDeviceTotalMem_v2",
                                                            "cuDevicePrimaryCtxRetain",
                                                            "cuDevicePrimaryCtxRelease_v2",
                                                            "cuCtxSetCurrent",
                                                            "cuMemAlloc_v2",
                                                            "cuMemFree_v2",
                                                            "cuMemcpyHtoDAsync_v2",
                                                            "cuMemcpyDtoHAsync_v2",
                                                            "cuMemcpyDtoDAsync_v2",
                                                            "cuStreamCreate",
                                                            "cuStreamDestroy_v2",
                                                            "cuStreamSynchronize",
                                                            "cuEventCreate",
                                                            "cuEventDestroy_v2",
                                                            "cuEventRecord",
                                                            "cuStreamWaitEvent",
                                                            "cuEventSynchronize",
                                                            "cuEventElapsedTime",
                                                            "cuModuleLoadData",
                                                            "cuModuleUnload",
                                                            "cuModuleGetFunction",
                                                            "cuLaunchKernel",
                                                            "cuGetErrorName"};
constexpr std::array<Names, kCompilerFunctions> kCudaCompilerNames = {
    "nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetProgramLogSize", "nvrtcGetProgramLog",
    "nvrtcGetCUBINSize",  "nvrtcGetCUBIN",       "nvrtcDestroyProgram",    "nvrtcVersion"};
constexpr std::array<Names, 2> kCudaOptions = {"--fmad=false", "--std=c++17"};

std::string cuda_chip(void* library, int device) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
  int (*attribute)(int* value, int which, int of) = nullptr;
  void* found = dlsym(library, "cuDeviceGetAttribute");
  std::memcpy(&attribute, &found, sizeof(attribute));
  int major = 0, minor = 0;
  if (found == nullptr || attribute(&major, kMajor, device) != 0 || attribute(&minor, kMinor, device) != 0)
    return "";
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

const char* cuda_dialect(const std::string& chip) {
  const int generation = std::atoi(chip.c_str() + std::min<std::size_t>(chip.size(), 3));
  return generation >= 80 ? "cuda-mma" : "cuda";
}

// ---- AMD: ROCm 5.2 or later

constexpr std::array<Names, 3> kHipDriver = {"libamdhip64.so.6", "libamdhip64.so.7", "libamdhip64.so"};
constexpr std::array<Names, 3> kHipCompiler = {"libhiprtc.so.6", "libhiprtc.so.7", "libhiprtc.so"};
constexpr std::array<Names, kDriverFunctions> kHipNames = {"hipInit",
                                                           "hipDriverGetVersion",
                                                           "hipGetDeviceCount",
                                                           "hipDeviceGet",
                                                           "hipDeviceGetName",
                                                           "hipDeviceTotalMem",
                                                           "hipDevicePrimaryCtxRetain",
                                                           "hipDevicePrimaryCtxRelease",
                                                           "hipCtxSetCurrent",
                                                           "hipMalloc",
                                                           "hipFree",
                                                           "hipMemcpyHtoDAsync",
                                                           "hipMemcpyDtoHAsync",
                                                           "hipMemcpyDtoDAsync",
                                                           "hipStreamCreateWithFlags",
                                                           "hipStreamDestroy",
                                                           "hipStreamSynchronize",
                                                           "hipEventCreateWithFlags",
                                                           "hipEventDestroy",
                                                           "hipEventRecord",
                                                           "hipStreamWaitEvent",
                                                           "hipEventSynchronize",
                                                           "hipEventElapsedTime",
                                                           "hipModuleLoadData",
                                                           "hipModuleUnload",
                                                           "hipModuleGetFunction",
                                                           "hipModuleLaunchKernel",
                                                           "hipDrvGetErrorName"};
constexpr std::array<Names, kCompilerFunctions> kHipCompilerNames = {
    "hiprtcCreateProgram", "hiprtcCompileProgram", "hiprtcGetProgramLogSize", "hiprtcGetProgramLog",
    "hiprtcGetCodeSize",   "hiprtcGetCode",        "hiprtcDestroyProgram",    "hiprtcVersion"};
constexpr std::array<Names, 2> kHipOptions = {"-ffp-contract=off", "-std=c++17"};

// The chip's name is a string in a record whose layout depends on the version ("gfx90a:sramecc+:xnack-"): it
// is looked for.
std::string hip_chip(void* library, int device) {
  constexpr std::size_t kRecordMax = 16384;
  int (*properties)(void* record, int of) = nullptr;
  void* found = dlsym(library, "hipGetDevicePropertiesR0600");
  if (found == nullptr) found = dlsym(library, "hipGetDeviceProperties");
  std::memcpy(&properties, &found, sizeof(properties));
  std::string record(kRecordMax, '\0');
  if (found == nullptr || properties(record.data(), device) != 0) return "";
  const std::size_t begin = record.find(std::string("\0gfx", 4));
  return begin == std::string::npos ? "" : record.c_str() + begin + 1;
}

const char* hip_dialect(const std::string& chip) {
  return chip.starts_with("gfx90a") || chip.starts_with("gfx94") ? "hip-mfma" : "hip";
}

}  // namespace

const Maker kCuda = {.name = "cuda",
                     .vendor = "NVIDIA",
                     .driver_libraries = kCudaDriver,
                     .compiler_libraries = kCudaCompiler,
                     .driver_names = kCudaNames,
                     .compiler_names = kCudaCompilerNames,
                     .chip = cuda_chip,
                     .chip_option = "--gpu-architecture=",
                     .options = kCudaOptions,
                     .dialect = cuda_dialect};
const Maker kHip = {.name = "hip",
                    .vendor = "AMD",
                    .driver_libraries = kHipDriver,
                    .compiler_libraries = kHipCompiler,
                    .driver_names = kHipNames,
                    .compiler_names = kHipCompilerNames,
                    .chip = hip_chip,
                    .chip_option = "--offload-arch=",
                    .options = kHipOptions,
                    .dialect = hip_dialect};

}  // namespace diji::cuda_like
