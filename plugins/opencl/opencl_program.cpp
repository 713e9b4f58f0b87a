// Tier 1 over OpenCL: programs from text and from binaries, and launches.
#include "plugins/opencl/opencl_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace diji::opencl {
namespace {

// Work-items of a launch, for each compute unit: each takes every n-th index of the grid. One item a group
// where an index does a tile's work, a group of items in lockstep where it does an element's.
constexpr std::uint64_t kItemsPerUnit = 4, kLockstepItemsPerUnit = 2048;
constexpr std::uint64_t kScratchAlignment = 64;
// A blob that begins so is the kernel text itself; others are the driver's binary.
constexpr std::string_view kTextBlob = "// OpenCL C\n";

diji_status build(const Device& device, cl_program program) {
  const DeviceFacts& facts = *device.facts;
  std::string options = "-w -cl-std=CL1.2";
  if (facts.rounds_division) options += " -cl-fp32-correctly-rounded-divide-sqrt";
  const cl_int error = api()->build_program(program, 1, &facts.id, options.c_str(), nullptr, nullptr);
  if (error == CL_SUCCESS) return DIJI_OK;
  std::size_t bytes = 0;
  api()->get_build_info(program, facts.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  api()->get_build_info(program, facts.id, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  return fail(error == CL_BUILD_PROGRAM_FAILURE ? DIJI_ERROR_COMPILE : DIJI_ERROR_INVALID,
              name_of_error(error) + ": " + log.c_str());
}

diji_status program_of_text(const Device& device, std::string_view text, Program& out) {
  cl_int error = CL_SUCCESS;
  const char* source = text.data();
  const std::size_t length = text.size();
  out.reset(api()->create_program(device.context.get(), 1, &source, &length, &error));
  return error != CL_SUCCESS ? checked(error, "clCreateProgramWithSource") : build(device, out.get());
}

diji_status program_of_binary(const Device& device, std::string_view binary, Program& out) {
  cl_int error = CL_SUCCESS, status = CL_SUCCESS;
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t length = binary.size();
  out.reset(api()->create_program_with_binary(device.context.get(), 1, &device.facts->id, &length, &bytes,
                                              &status, &error));
  if (error == CL_SUCCESS) error = status;
  return error == CL_SUCCESS ? build(device, out.get())
                             : fail(DIJI_ERROR_INVALID, "no binary of this driver: " + name_of_error(error));
}

diji_status binary_of(cl_program program, std::string& out) {
  std::size_t bytes = 0;
  cl_int error = api()->get_program_info(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, nullptr);
  if (error == CL_SUCCESS && bytes == 0) return fail(DIJI_ERROR_DEVICE, "the driver gives no binary");
  out.resize(bytes);
  char* binary = out.data();
  if (error == CL_SUCCESS)
    error = api()->get_program_info(program, CL_PROGRAM_BINARIES, sizeof(binary), &binary, nullptr);
  return checked(error, "the program's binary");
}

diji_status kernel_of(Module& module, const char* entry, cl_kernel& out) {
  auto found = module.kernels.find(std::string_view(entry));
  if (found == module.kernels.end()) {
    cl_int error = CL_SUCCESS;
    // The language has functions called dot and select.
    const std::string name = std::string("diji_") + entry;
    Kernel kernel(api()->create_kernel(module.program.get(), name.c_str(), &error));
    if (error != CL_SUCCESS) return checked(error, entry);
    found = module.kernels.emplace(entry, std::move(kernel)).first;
  }
  out = found->second.get();
  return DIJI_OK;
}

// Sets arguments one after the other and keeps the first error.
class Arguments {
 public:
  explicit Arguments(cl_kernel kernel) : kernel_(kernel) {}
  template <typename T>
  void add(const T& value) {
    const cl_int error = api()->set_kernel_arg(kernel_, index_++, sizeof(value), &value);
    if (error_ == CL_SUCCESS) error_ = error;
  }
  void add(diji_place place) {
    add(place.buffer == nullptr ? cl_mem{} : of(place.buffer).memory.get());
    add(static_cast<cl_long>(place.offset));
  }
  cl_int error() const { return error_; }

 private:
  cl_kernel kernel_;
  cl_uint index_ = 0;
  cl_int error_ = CL_SUCCESS;
};

diji_status grow_scratch(Stream& stream, std::uint64_t bytes) {
  if (bytes <= stream.scratch_bytes) return DIJI_OK;
  cl_int error = CL_SUCCESS;
  Memory grown(api()->create_buffer(stream.device->context.get(), CL_MEM_READ_WRITE, bytes, nullptr, &error));
  if (error != CL_SUCCESS) return checked(error, "scratch of kernels");
  stream.scratch = std::move(grown);
  stream.scratch_bytes = bytes;
  return DIJI_OK;
}

}  // namespace

diji_status compile(diji_device* handle, const diji_kernel_text* text, const void** blob,
                    size_t* blob_bytes) {
  Device& device = of(handle);
  std::string bytes = std::string(kTextBlob) + std::string(text->text, text->text_bytes);
  Program program;
  diji_status status = program_of_text(device, bytes, program);
  if (status == DIJI_OK && !device.facts->compiles_at_launch) status = binary_of(program.get(), bytes);
  if (status != DIJI_OK) return status;
  void* copy = std::malloc(bytes.size());
  if (copy == nullptr) return fail(DIJI_ERROR_OUT_OF_MEMORY, "no memory for a blob");
  std::memcpy(copy, bytes.data(), bytes.size());
  *blob = copy;
  *blob_bytes = bytes.size();
  const std::scoped_lock lock(device.mutex);
  device.built.insert_or_assign(std::move(bytes), std::move(program));
  return DIJI_OK;
}

void blob_free(const void* blob) { std::free(const_cast<void*>(blob)); }

diji_status load(diji_device* handle, const void* blob, size_t blob_bytes, diji_module** out) {
  Device& device = of(handle);
  const std::string_view bytes(static_cast<const char*>(blob), blob_bytes);
  auto module = std::make_unique<Module>();
  {
    const std::scoped_lock lock(device.mutex);
    if (auto built = device.built.extract(std::string(bytes))) module->program = std::move(built.mapped());
  }
  if (module->program == nullptr) {
    const bool is_text = bytes.starts_with(kTextBlob);
    const diji_status built = is_text ? program_of_text(device, bytes, module->program)
                                      : program_of_binary(device, bytes, module->program);
    if (built != DIJI_OK) return built == DIJI_ERROR_COMPILE ? DIJI_ERROR_INVALID : built;
  }
  *out = reinterpret_cast<diji_module*>(module.release());
  return DIJI_OK;
}

void unload(diji_module* module) { const std::unique_ptr<Module> owned(&of(module)); }

diji_status launch(diji_stream* handle, diji_module* module, const diji_launch* launch) {
  Stream& stream = of(handle);
  const DeviceFacts& facts = *stream.device->facts;
  const std::size_t argument_bytes = 16 * (launch->place_count + 1) + 8 * launch->size_count + 24;
  if (argument_bytes > facts.argument_bytes_max) {
    return fail(DIJI_ERROR_UNSUPPORTED, std::string(launch->entry) + ": " + std::to_string(argument_bytes) +
                                            " bytes of arguments; the device takes " +
                                            std::to_string(facts.argument_bytes_max));
  }
  const std::scoped_lock lock(of(module).mutex);
  cl_kernel kernel = nullptr;
  if (const diji_status found = kernel_of(of(module), launch->entry, kernel); found != DIJI_OK) return found;
  if (launch->grid <= 0) return DIJI_OK;
  const auto grid = static_cast<std::uint64_t>(launch->grid);
  const std::size_t group = facts.simt ? DIJI_SIMT_GROUP : 1;
  const std::uint64_t most = facts.compute_units * (facts.simt ? kLockstepItemsPerUnit : kItemsPerUnit);
  const std::size_t items = (std::min(grid, most) + group - 1) / group * group;
  const std::uint64_t stride =
      (launch->local_bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  if (const diji_status grown = grow_scratch(stream, items * stride); grown != DIJI_OK) return grown;

  Arguments arguments(kernel);
  for (uint32_t i = 0; i < launch->place_count; ++i) arguments.add(launch->places[i]);
  for (uint32_t i = 0; i < launch->size_count; ++i) arguments.add(static_cast<cl_long>(launch->sizes[i]));
  arguments.add(launch->error_word);
  arguments.add(stride == 0 ? cl_mem{} : stream.scratch.get());
  arguments.add(static_cast<cl_long>(stride));
  arguments.add(static_cast<cl_long>(launch->grid));
  if (arguments.error() != CL_SUCCESS) return checked(arguments.error(), launch->entry);
  return checked(
      api()->enqueue_kernel(stream.queue.get(), kernel, 1, nullptr, &items, &group, 0, nullptr, nullptr),
      launch->entry);
}

}  // namespace diji::opencl
