// CUDA's driver API on host memory: streams work at once, kernels are run item by item. Once and again under
// HIP's names.
#include "tests/fake_gpu/fake_gpu.h"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>

namespace {

using fake_gpu::run_lanes;

constexpr std::size_t kMemoryBytes = std::size_t{4} << 30;
enum Error : int { kInvalidValue = 1, kOutOfMemory = 2, kNotFound = 500 };

thread_local bool has_context = false;

// Copies nothing and says so where no context was set: a plugin that forgets it fails here as on a chip.
int needs_context(int error = 0) { return has_context ? error : 201; }  // CUDA_ERROR_INVALID_CONTEXT

struct Event {
  std::chrono::steady_clock::time_point when;
};

struct Function {
  void (*call)(void** parameters) = nullptr;
  int lanes = 1;
  unsigned *group = nullptr, *item = nullptr, *groups = nullptr;
};

template <typename T>
T* symbol(void* library, const std::string& name) {
  return reinterpret_cast<T*>(dlsym(library, name.c_str()));
}

}  // namespace

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) { return *version = 1000, 0; }
int cuDeviceGetCount(int* count) {
  const char* text = std::getenv("FAKE_GPU_DEVICES");
  *count = text == nullptr ? 1 : std::atoi(text);
  return 0;
}
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<std::size_t>(length), "fake GPU on the host");
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = kMemoryBytes, 0; }
int cuDeviceGetAttribute(int* value, int which, int) { return *value = which == 75 ? 8 : 0, 0; }
int hipGetDevicePropertiesR0600(void* record, int) {
  std::memcpy(static_cast<char*>(record) + 1000, "gfx90a:sramecc+:xnack-", 23);
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &has_context, 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void* context) { return has_context = context != nullptr, 0; }

int cuMemAlloc_v2(std::uint64_t* out, std::size_t bytes) {
  if (bytes == 0 || bytes > kMemoryBytes) return bytes == 0 ? kInvalidValue : kOutOfMemory;
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) return kOutOfMemory;
  *out = reinterpret_cast<std::uint64_t>(memory);
  return needs_context();
}
int cuMemFree_v2(std::uint64_t memory) {
  std::free(reinterpret_cast<void*>(memory));
  return needs_context();
}
int cuMemcpyHtoDAsync_v2(std::uint64_t dst, const void* src, std::size_t bytes, void*) {
  if (has_context) std::memcpy(reinterpret_cast<void*>(dst), src, bytes);
  return needs_context();
}
int cuMemcpyDtoHAsync_v2(void* dst, std::uint64_t src, std::size_t bytes, void*) {
  if (has_context) std::memcpy(dst, reinterpret_cast<const void*>(src), bytes);
  return needs_context();
}
int cuMemcpyDtoDAsync_v2(std::uint64_t dst, std::uint64_t src, std::size_t bytes, void*) {
  if (has_context) std::memcpy(reinterpret_cast<void*>(dst), reinterpret_cast<const void*>(src), bytes);
  return needs_context();
}

int cuStreamCreate(void** out, unsigned) { return *out = new int(0), needs_context(); }
int cuStreamDestroy_v2(void* stream) {
  delete static_cast<int*>(stream);
  return needs_context();
}
int cuStreamSynchronize(void*) { return needs_context(); }
int cuEventCreate(void** out, unsigned) { return *out = new Event(), needs_context(); }
int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return needs_context();
}
int cuEventRecord(void* event, void*) {
  static_cast<Event*>(event)->when = std::chrono::steady_clock::now();
  return needs_context();
}
int cuStreamWaitEvent(void*, void*, unsigned) { return needs_context(); }
int cuEventSynchronize(void*) { return needs_context(); }
int cuEventElapsedTime(float* out, void* from, void* to) {
  const auto between = static_cast<Event*>(to)->when - static_cast<Event*>(from)->when;
  *out = std::chrono::duration<float, std::milli>(between).count();
  return needs_context();
}

// The image is a shared object of fake_compiler.cpp, whose section headers end it.
int cuModuleLoadData(void** out, const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  const std::size_t bytes = header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
  char path[] = "/tmp/fake_gpu_XXXXXX";
  const int file = mkstemp(path);
  if (file < 0 || write(file, image, bytes) != static_cast<ssize_t>(bytes)) return kInvalidValue;
  close(file);
  *out = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  if (*out == nullptr) return kInvalidValue;
  if (auto* barrier = symbol<void (*)()>(*out, "fake_group_barrier")) *barrier = fake_gpu::barrier;
  if (auto* step = symbol<fake_gpu::MatrixStep>(*out, "fake_matrix_step")) *step = fake_gpu::matrix_step;
  return needs_context();
}
int cuModuleUnload(void* module) { return dlclose(module), needs_context(); }
int cuModuleGetFunction(void** out, void* module, const char* name) {
  auto* call = symbol<void(void**)>(module, std::string("fake_") + name);
  if (call == nullptr) return kNotFound;
  static std::deque<Function> functions;  // as long as the process: handles stay
  Function* function = &functions.emplace_back(Function{.call = call});
  function->lanes = *symbol<int>(module, std::string("lanes_") + name);
  function->group = symbol<unsigned>(module, "blockIdx");
  function->item = symbol<unsigned>(module, "threadIdx");
  function->groups = symbol<unsigned>(module, "gridDim");
  *out = function;
  return needs_context();
}
int cuLaunchKernel(void* handle, unsigned groups, unsigned, unsigned, unsigned items, unsigned, unsigned,
                   unsigned, void*, void** parameters, void**) {
  const Function& function = *static_cast<Function*>(handle);
  const auto lanes = static_cast<unsigned>(function.lanes);
  *function.groups = groups;
  for (unsigned group = 0; group < groups; ++group) {
    for (unsigned first = 0; first < items; first += lanes) {
      const auto lane = [&](int number) {
        *function.group = group;
        *function.item = first + static_cast<unsigned>(number);
        function.call(parameters);
      };
      lanes == 1 ? lane(0) : run_lanes(function.lanes, lane);
    }
  }
  return needs_context();
}
int cuGetErrorName(int error, const char** name) {
  *name = error == kOutOfMemory ? "FAKE_OUT_OF_MEMORY" : "FAKE_ERROR";
  return 0;
}

decltype(cuInit) hipInit __attribute__((alias("cuInit")));
decltype(cuDriverGetVersion) hipDriverGetVersion __attribute__((alias("cuDriverGetVersion")));
decltype(cuDeviceGetCount) hipGetDeviceCount __attribute__((alias("cuDeviceGetCount")));
decltype(cuDeviceGet) hipDeviceGet __attribute__((alias("cuDeviceGet")));
decltype(cuDeviceGetName) hipDeviceGetName __attribute__((alias("cuDeviceGetName")));
decltype(cuDeviceTotalMem_v2) hipDeviceTotalMem __attribute__((alias("cuDeviceTotalMem_v2")));
decltype(cuDevicePrimaryCtxRetain) hipDevicePrimaryCtxRetain
    __attribute__((alias("cuDevicePrimaryCtxRetain")));
decltype(cuDevicePrimaryCtxRelease_v2) hipDevicePrimaryCtxRelease
    __attribute__((alias("cuDevicePrimaryCtxRelease_v2")));
decltype(cuCtxSetCurrent) hipCtxSetCurrent __attribute__((alias("cuCtxSetCurrent")));
decltype(cuMemAlloc_v2) hipMalloc __attribute__((alias("cuMemAlloc_v2")));
decltype(cuMemFree_v2) hipFree __attribute__((alias("cuMemFree_v2")));
decltype(cuMemcpyHtoDAsync_v2) hipMemcpyHtoDAsync __attribute__((alias("cuMemcpyHtoDAsync_v2")));
decltype(cuMemcpyDtoHAsync_v2) hipMemcpyDtoHAsync __attribute__((alias("cuMemcpyDtoHAsync_v2")));
decltype(cuMemcpyDtoDAsync_v2) hipMemcpyDtoDAsync __attribute__((alias("cuMemcpyDtoDAsync_v2")));
decltype(cuStreamCreate) hipStreamCreateWithFlags __attribute__((alias("cuStreamCreate")));
decltype(cuStreamDestroy_v2) hipStreamDestroy __attribute__((alias("cuStreamDestroy_v2")));
decltype(cuStreamSynchronize) hipStreamSynchronize __attribute__((alias("cuStreamSynchronize")));
decltype(cuEventCreate) hipEventCreateWithFlags __attribute__((alias("cuEventCreate")));
decltype(cuEventDestroy_v2) hipEventDestroy __attribute__((alias("cuEventDestroy_v2")));
decltype(cuEventRecord) hipEventRecord __attribute__((alias("cuEventRecord")));
decltype(cuStreamWaitEvent) hipStreamWaitEvent __attribute__((alias("cuStreamWaitEvent")));
decltype(cuEventSynchronize) hipEventSynchronize __attribute__((alias("cuEventSynchronize")));
decltype(cuEventElapsedTime) hipEventElapsedTime __attribute__((alias("cuEventElapsedTime")));
decltype(cuModuleLoadData) hipModuleLoadData __attribute__((alias("cuModuleLoadData")));
decltype(cuModuleUnload) hipModuleUnload __attribute__((alias("cuModuleUnload")));
decltype(cuModuleGetFunction) hipModuleGetFunction __attribute__((alias("cuModuleGetFunction")));
decltype(cuLaunchKernel) hipModuleLaunchKernel __attribute__((alias("cuLaunchKernel")));
decltype(cuGetErrorName) hipDrvGetErrorName __attribute__((alias("cuGetErrorName")));
}
