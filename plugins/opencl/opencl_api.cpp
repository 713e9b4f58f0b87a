// Opening the ICD loader and the names of its errors.
#include "plugins/opencl/opencl_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

namespace diji::opencl {
namespace {

struct Loaded {
  Api functions{};
  std::string why_not;  ///< empty where all functions are there

  Loaded() {
    void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      why_not = dlerror();
      return;
    }
    Api& f = functions;
    take(library, "clGetPlatformIDs", f.get_platform_ids);
    take(library, "clGetDeviceIDs", f.get_device_ids);
    take(library, "clGetDeviceInfo", f.get_device_info);
    take(library, "clCreateContext", f.create_context);
    take(library, "clReleaseContext", f.release_context);
    take(library, "clCreateCommandQueue", f.create_queue);
    take(library, "clReleaseCommandQueue", f.release_queue);
    take(library, "clFlush", f.flush);
    take(library, "clFinish", f.finish);
    take(library, "clCreateBuffer", f.create_buffer);
    take(library, "clReleaseMemObject", f.release_buffer);
    take(library, "clSetMemObjectDestructorCallback", f.on_buffer_gone);
    take(library, "clEnqueueWriteBuffer", f.enqueue_write);
    take(library, "clEnqueueReadBuffer", f.enqueue_read);
    take(library, "clEnqueueCopyBuffer", f.enqueue_copy);
    take(library, "clEnqueueNDRangeKernel", f.enqueue_kernel);
    take(library, "clEnqueueMarkerWithWaitList", f.enqueue_marker);
    take(library, "clEnqueueBarrierWithWaitList", f.enqueue_barrier);
    take(library, "clWaitForEvents", f.wait_for_events);
    take(library, "clGetEventProfilingInfo", f.get_event_profile);
    take(library, "clReleaseEvent", f.release_event);
    take(library, "clCreateProgramWithSource", f.create_program);
    take(library, "clCreateProgramWithBinary", f.create_program_with_binary);
    take(library, "clBuildProgram", f.build_program);
    take(library, "clGetProgramInfo", f.get_program_info);
    take(library, "clGetProgramBuildInfo", f.get_build_info);
    take(library, "clReleaseProgram", f.release_program);
    take(library, "clCreateKernel", f.create_kernel);
    take(library, "clSetKernelArg", f.set_kernel_arg);
    take(library, "clReleaseKernel", f.release_kernel);
  }

  template <typename Function>
  void take(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr)
      why_not = std::string("libOpenCL.so.1 has no ") + name + ": OpenCL 1.2 is needed";
  }
};

const Loaded& loaded() {
  static const Loaded instance;
  return instance;
}

constexpr std::pair<cl_int, const char*> kErrors[] = {
    {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
    {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
    {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
    {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
    {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
    {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
    {CL_INVALID_BINARY, "CL_INVALID_BINARY"},
    {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME"},
    {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
    {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"},
    {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE"},
    {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
};

}  // namespace

const Api* api() { return loaded().why_not.empty() ? &loaded().functions : nullptr; }
const std::string& why_not() { return loaded().why_not; }

std::string name_of_error(cl_int error) {
  const auto* found = std::ranges::find(kErrors, error, &std::pair<cl_int, const char*>::first);
  const std::string name = found == std::end(kErrors) ? "OpenCL error" : found->second;
  return name + " (" + std::to_string(error) + ")";
}

}  // namespace diji::opencl
