// One row a maker: libraries, the names of their functions, chips and options. Two families of names are told
// apart by what stands before them; the rows of CUDA and HIP are those that tests run (on a driver that is
// the host), those of MUSA and MACA are written from these makers' public sources and have met no chip.
#include "plugins/cuda_like/driver.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace diji::cuda_like {
namespace {

using Names = const char*;

// CUDA's driver, and MUSA's.
constexpr std::array<Names, kDriverFunctions> kDriverApi = {"Init",
                                                            "DriverGetVersion",
                                                            "DeviceGetCount",
                                                            "DeviceGet",
                                                            "DeviceGetName",
                                                            "DeviceTotalMem_v2",
                                                            "DevicePrimaryCtxRetain",
                                                            "DevicePrimaryCtxRelease_v2",
                                                            "CtxSetCurrent",
                                                            "MemAlloc_v2",
                                                            "MemFree_v2",
                                                            "MemcpyHtoDAsync_v2",
                                                            "MemcpyDtoHAsync_v2",
                                                            "MemcpyDtoDAsync_v2",
                                                            "StreamCreate",
                                                            "StreamDestroy_v2",
                                                            "StreamSynchronize",
                                                            "EventCreate",
                                                            "EventDestroy_v2",
                                                            "EventRecord",
                                                            "StreamWaitEvent",
                                                            "EventSynchronize",
                                                            "EventElapsedTime",
                                                            "ModuleLoadData",
                                                            "ModuleUnload",
                                                            "ModuleGetFunction",
                                                            "LaunchKernel",
                                                            "GetErrorName"};

// HIP's runtime, which has a driver's functions too, and MACA's.
constexpr std::array<Names, kDriverFunctions> kRuntimeApi = {"Init",
                                                             "DriverGetVersion",
                                                             "GetDeviceCount",
                                                             "DeviceGet",
                                                             "DeviceGetName",
                                                             "DeviceTotalMem",
                                                             "DevicePrimaryCtxRetain",
                                                             "DevicePrimaryCtxRelease",
                                                             "CtxSetCurrent",
                                                             "Malloc",
                                                             "Free",
                                                             "MemcpyHtoDAsync",
                                                             "MemcpyDtoHAsync",
                                                             "MemcpyDtoDAsync",
                                                             "StreamCreateWithFlags",
                                                             "StreamDestroy",
                                                             "StreamSynchronize",
                                                             "EventCreateWithFlags",
                                                             "EventDestroy",
                                                             "EventRecord",
                                                             "StreamWaitEvent",
                                                             "EventSynchronize",
                                                             "EventElapsedTime",
                                                             "ModuleLoadData",
                                                             "ModuleUnload",
                                                             "ModuleGetFunction",
                                                             "ModuleLaunchKernel",
                                                             "DrvGetErrorName"};

using CompilerNames = std::array<Names, kCompilerFunctions>;
constexpr CompilerNames compiler_api(Names code_bytes, Names code) {
  return {"CreateProgram",  "CompileProgram", "GetProgramLogSize", "GetProgramLog", code_bytes, code,
          "DestroyProgram", "Version"};
}

// A function of a maker's library, by the types of its parameters.
template <typename... Parameters>
auto function_of(void* library, Names name) {
  int (*function)(Parameters...) = nullptr;
  void* found = dlsym(library, name);
  std::memcpy(&function, &found, sizeof(function));
  return function;
}

// "8" and "6" of sm_86; the numbers of these attributes are the same in CUDA and MUSA.
std::string capability(void* library, Names attribute_name, int device) {
  constexpr int kMajor = 75, kMinor = 76;
  const auto attribute = function_of<int*, int, int>(library, attribute_name);
  int major = 0, minor = 0;
  if (attribute == nullptr || attribute(&major, kMajor, device) != 0 ||
      attribute(&minor, kMinor, device) != 0)
    return "";
  return std::to_string(major) + std::to_string(minor);
}

// ---- NVIDIA: CUDA 11.1 or later (cubins from NVRTC)

constexpr std::array<Names, 1> kCudaDriver = {"libcuda.so.1"};
constexpr std::array<Names, 4> kCudaCompiler = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                                "libnvrtc.so"};
constexpr CompilerNames kCudaCompilerApi = compiler_api("GetCUBINSize", "GetCUBIN");
constexpr std::array<Names, 2> kCudaOptions = {"--fmad=false", "--std=c++17"};

std::string cuda_chip(void* library, int device) {
  return "sm_" + capability(library, "cuDeviceGetAttribute", device);
}
const char* cuda_dialect(const std::string& chip) {
  return std::atoi(chip.c_str() + std::strlen("sm_")) >= 80 ? "cuda-mma" : "cuda";
}

// ---- AMD: ROCm 5.2 or later

constexpr std::array<Names, 3> kHipDriver = {"libamdhip64.so.6", "libamdhip64.so.7", "libamdhip64.so"};
constexpr std::array<Names, 3> kHipCompiler = {"libhiprtc.so.6", "libhiprtc.so.7", "libhiprtc.so"};
constexpr CompilerNames kHipCompilerApi = compiler_api("GetCodeSize", "GetCode");
constexpr std::array<Names, 2> kHipOptions = {"-ffp-contract=off", "-std=c++17"};

// The chip's name is a string in a record whose layout depends on the version ("gfx90a:sramecc+:xnack-"): it
// is looked for.
std::string hip_chip(void* library, int device) {
  constexpr std::size_t kRecordMax = 16384;
  auto properties = function_of<void*, int>(library, "hipGetDevicePropertiesR0600");
  if (properties == nullptr) properties = function_of<void*, int>(library, "hipGetDeviceProperties");
  std::string record(kRecordMax, '\0');
  if (properties == nullptr || properties(record.data(), device) != 0) return "";
  const std::size_t begin = record.find(std::string("\0gfx", 4));
  return begin == std::string::npos ? "" : record.c_str() + begin + 1;
}

const char* hip_dialect(const std::string& chip) {
  return chip.starts_with("gfx90a") || chip.starts_with("gfx94") ? "hip-mfma" : "hip";
}

// ---- Moore Threads: MUSA 3 or later

constexpr std::array<Names, 3> kMusaDriver = {"libmusa.so", "libmusa.so.4", "libmusa.so.3"};
constexpr std::array<Names, 1> kMusaCompiler = {"libmtrtc.so"};
constexpr CompilerNames kMusaCompilerApi = compiler_api("GetFatBinSize", "GetFatBin");

std::string musa_chip(void* library, int device) {
  return "mp_" + capability(library, "muDeviceGetAttribute", device);
}
const char* musa_dialect(const std::string&) { return "cuda"; }

// ---- MetaX: MACA 2 or later; its compiler is in the library of its driver and knows the chip

constexpr std::array<Names, 1> kMacaLibrary = {"libmcruntime.so"};
constexpr CompilerNames kMacaCompilerApi = compiler_api("GetBitcodeSize", "GetBitcode");

std::string maca_chip(void*, int) { return ""; }
const char* maca_dialect(const std::string&) { return "cuda"; }

}  // namespace

const Maker kCuda = {.name = "cuda",
                     .vendor = "NVIDIA",
                     .driver_libraries = kCudaDriver,
                     .compiler_libraries = kCudaCompiler,
                     .driver = {"cu", kDriverApi},
                     .compiler = {"nvrtc", kCudaCompilerApi},
                     .chip = cuda_chip,
                     .chip_option = "--gpu-architecture=",
                     .options = kCudaOptions,
                     .dialect = cuda_dialect};
const Maker kHip = {.name = "hip",
                    .vendor = "AMD",
                    .driver_libraries = kHipDriver,
                    .compiler_libraries = kHipCompiler,
                    .driver = {"hip", kRuntimeApi},
                    .compiler = {"hiprtc", kHipCompilerApi},
                    .chip = hip_chip,
                    .chip_option = "--offload-arch=",
                    .options = kHipOptions,
                    .dialect = hip_dialect};
const Maker kMusa = {.name = "musa",
                     .vendor = "Moore Threads",
                     .driver_libraries = kMusaDriver,
                     .compiler_libraries = kMusaCompiler,
                     .driver = {"mu", kDriverApi},
                     .compiler = {"mtrtc", kMusaCompilerApi},
                     .chip = musa_chip,
                     .chip_option = "--offload-arch=",
                     .options = kHipOptions,
                     .dialect = musa_dialect};
const Maker kMaca = {
    .name = "maca",
    .vendor = "MetaX",
    .driver_libraries = kMacaLibrary,
    .compiler_libraries = kMacaLibrary,
    .driver = {"mc", std::span(kRuntimeApi).first<kDriverFunctions - 1>()},  // errors have no names
    .compiler = {"mcrtc", kMacaCompilerApi},
    .chip = maca_chip,
    .chip_option = "",
    .options = kHipOptions,
    .dialect = maca_dialect};

}  // namespace diji::cuda_like
