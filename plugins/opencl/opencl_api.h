// The OpenCL functions that the plugin calls, from libOpenCL.so.1: opened when first asked for, so that diji
// runs where no loader is installed.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>

namespace diji::opencl {

struct Api {
  decltype(&clGetPlatformIDs) get_platform_ids;
  decltype(&clGetDeviceIDs) get_device_ids;
  decltype(&clGetDeviceInfo) get_device_info;
  decltype(&clCreateContext) create_context;
  decltype(&clReleaseContext) release_context;
  decltype(&clCreateCommandQueue) create_queue;
  decltype(&clReleaseCommandQueue) release_queue;
  decltype(&clFlush) flush;
  decltype(&clFinish) finish;
  decltype(&clCreateBuffer) create_buffer;
  decltype(&clReleaseMemObject) release_buffer;
  decltype(&clSetMemObjectDestructorCallback) on_buffer_gone;
  decltype(&clEnqueueWriteBuffer) enqueue_write;
  decltype(&clEnqueueReadBuffer) enqueue_read;
  decltype(&clEnqueueCopyBuffer) enqueue_copy;
  decltype(&clEnqueueNDRangeKernel) enqueue_kernel;
  decltype(&clEnqueueMarkerWithWaitList) enqueue_marker;
  decltype(&clEnqueueBarrierWithWaitList) enqueue_barrier;
  decltype(&clWaitForEvents) wait_for_events;
  decltype(&clGetEventProfilingInfo) get_event_profile;
  decltype(&clReleaseEvent) release_event;
  decltype(&clCreateProgramWithSource) create_program;
  decltype(&clCreateProgramWithBinary) create_program_with_binary;
  decltype(&clBuildProgram) build_program;
  decltype(&clGetProgramInfo) get_program_info;
  decltype(&clGetProgramBuildInfo) get_build_info;
  decltype(&clReleaseProgram) release_program;
  decltype(&clCreateKernel) create_kernel;
  decltype(&clSetKernelArg) set_kernel_arg;
  decltype(&clReleaseKernel) release_kernel;
};

/// Null where there is no loader; why_not() then says so.
const Api* api();
const std::string& why_not();

/// "CL_INVALID_BUFFER_SIZE (-61)"
std::string name_of_error(cl_int error);

}  // namespace diji::opencl
