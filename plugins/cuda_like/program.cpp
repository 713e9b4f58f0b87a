// Tier 1: kernel text to code by the maker's compiler, and launches.
#include "plugins/cuda_like/driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace diji::cuda_like {
namespace {

// Each item takes every n-th index of the grid. Half a million items are more than any of these devices runs
// at once; scratch may make them fewer.
constexpr std::uint64_t kGroupsMax = 4096, kScratchBytesMax = std::uint64_t{256} << 20;
constexpr std::uint64_t kScratchAlignment = 64;
constexpr std::size_t kParameterBytesMax = 4096;  // of a kernel, on every device of either maker
constexpr std::uint64_t kGroup = DIJI_SIMT_GROUP;

// Programs of the compiler library end with their scope.
struct Program {
  const Compiler& compiler;
  Handle handle = nullptr;
  explicit Program(const Compiler& of) : compiler(of) {}
  ~Program() {
    if (handle != nullptr) compiler.destroy(&handle);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
};

diji_status refused(const Program& program, int error) {
  std::size_t bytes = 0;
  std::string log;
  if (program.compiler.log_bytes(program.handle, &bytes) == 0 && bytes > 0) {
    log.resize(bytes);
    program.compiler.log(program.handle, log.data());
  }
  return fail(DIJI_ERROR_COMPILE, "compiler error " + std::to_string(error) + ": " + log.c_str());
}

// The driver is told no length, and the makers' images have many formats: a blob is an image behind a seal,
// so that no driver reads past what is cut off or is no image.
struct Seal {
  std::uint64_t magic = 0x6c616573'696a6964;  // "dijiseal"
  std::uint64_t bytes = 0, checksum = 0;
};

// FNV-1a.
std::uint64_t checksum(const char* data, std::size_t bytes) {
  std::uint64_t sum = 14695981039346656037U;
  for (std::size_t i = 0; i < bytes; ++i) sum = (sum ^ static_cast<unsigned char>(data[i])) * 1099511628211U;
  return sum;
}

// The image in a blob, or null.
const char* image_of(const void* blob, std::size_t bytes) {
  Seal seal;
  if (bytes < sizeof(seal)) return nullptr;
  std::memcpy(&seal, blob, sizeof(seal));
  const char* image = static_cast<const char*>(blob) + sizeof(seal);
  const std::size_t rest = bytes - sizeof(seal);
  const bool whole =
      seal.magic == Seal{}.magic && seal.bytes == rest && seal.checksum == checksum(image, rest);
  return whole ? image : nullptr;
}

diji_status function_of(Module& module, const char* entry, Handle* out) {
  const std::scoped_lock lock(module.mutex);
  const auto found = module.functions.find(std::string_view(entry));
  if (found != module.functions.end()) {
    *out = found->second;
    return DIJI_OK;
  }
  const Driver& driver = module.device->driver();
  const int error = driver.module_function(out, module.handle, (std::string("diji_") + entry).c_str());
  if (error != 0) {
    checked(driver, error, entry);
    return fail(DIJI_ERROR_UNSUPPORTED, last_error());
  }
  module.functions.emplace(entry, *out);
  return DIJI_OK;
}

diji_status grow_scratch(Stream& stream, std::uint64_t bytes) {
  if (bytes <= stream.scratch_bytes) return DIJI_OK;
  const Driver& driver = stream.device->driver();
  Address grown = 0;
  const int error = driver.alloc(&grown, bytes);
  if (error != 0) return checked(driver, error, "scratch of kernels");
  if (stream.scratch != 0) {
    driver.stream_sync(stream.handle);  // kernels that run still use the old one
    driver.free(stream.scratch);
  }
  stream.scratch = grown;
  stream.scratch_bytes = bytes;
  return DIJI_OK;
}

// All parameters of kernels are 8 bytes: addresses and integers.
std::vector<std::uint64_t> parameters_of(const diji_launch& launch, Address scratch, std::uint64_t stride) {
  std::vector<std::uint64_t> values;
  const auto add_place = [&](const diji_place& place) {
    values.push_back(place.buffer == nullptr ? 0 : of(place.buffer).memory);
    values.push_back(place.offset);
  };
  for (uint32_t i = 0; i < launch.place_count; ++i) add_place(launch.places[i]);
  for (uint32_t i = 0; i < launch.size_count; ++i)
    values.push_back(static_cast<std::uint64_t>(launch.sizes[i]));
  add_place(launch.error_word);
  values.push_back(scratch);
  values.push_back(stride);
  values.push_back(static_cast<std::uint64_t>(launch.grid));
  return values;
}

}  // namespace

diji_status compile(diji_device* handle, const diji_kernel_text* text, const void** blob,
                    size_t* blob_bytes) {
  const Device& device = of(handle);
  const Loaded& loaded = *device.loaded;
  if (!loaded.compiles) return fail(DIJI_ERROR_UNSUPPORTED, "no compiler of kernels: " + loaded.no_compiler);
  Program program(loaded.compiler);
  const std::string source(text->text, text->text_bytes);
  int error = loaded.compiler.create(&program.handle, source.c_str(), "kernel", 0, nullptr, nullptr);
  if (error != 0)
    return fail(DIJI_ERROR_COMPILE, "the compiler takes no text: error " + std::to_string(error));
  const std::string chip = std::string(loaded.maker->chip_option) + device.facts->chip;
  std::vector<const char*> options;
  if (!loaded.maker->chip_option.empty()) options.push_back(chip.c_str());
  options.insert(options.end(), loaded.maker->options.begin(), loaded.maker->options.end());
  error = loaded.compiler.compile(program.handle, static_cast<int>(options.size()), options.data());
  if (error != 0) return refused(program, error);
  std::size_t bytes = 0;
  if (loaded.compiler.code_bytes(program.handle, &bytes) != 0 || bytes == 0)
    return fail(DIJI_ERROR_DEVICE, "the compiler gives no code");
  std::unique_ptr<char, void (*)(void*)> code(static_cast<char*>(std::malloc(sizeof(Seal) + bytes)),
                                              std::free);
  if (code == nullptr) return fail(DIJI_ERROR_OUT_OF_MEMORY, "no memory for a kernel's code");
  char* image = code.get() + sizeof(Seal);
  error = loaded.compiler.code(program.handle, image);
  if (error != 0) return fail(DIJI_ERROR_DEVICE, "the compiler gives no code");
  const Seal seal{.bytes = bytes, .checksum = checksum(image, bytes)};
  std::memcpy(code.get(), &seal, sizeof(seal));
  *blob_bytes = sizeof(seal) + bytes;
  *blob = code.release();
  return DIJI_OK;
}

void blob_free(const void* blob) { std::free(const_cast<void*>(blob)); }

diji_status load(diji_device* device, const void* blob, size_t blob_bytes, diji_module** out) {
  const char* image = image_of(blob, blob_bytes);
  if (image == nullptr) return fail(DIJI_ERROR_INVALID, "no code of this device's compiler");
  if (const diji_status entered = enter(of(device)); entered != DIJI_OK) return entered;
  auto module = std::make_unique<Module>();
  module->device = &of(device);
  const Driver& driver = of(device).driver();
  if (const int error = driver.module_load(&module->handle, image); error != 0) {
    checked(driver, error, "loading code");
    return fail(DIJI_ERROR_INVALID, last_error());
  }
  *out = reinterpret_cast<diji_module*>(module.release());
  return DIJI_OK;
}

void unload(diji_module* module) {
  const std::unique_ptr<Module> owned(&of(module));
  if (enter(*owned->device) == DIJI_OK) owned->device->driver().module_unload(owned->handle);
}

diji_status launch(diji_stream* handle, diji_module* module, const diji_launch* launch) {
  Stream& stream = of(handle);
  if (const diji_status entered = enter(*stream.device); entered != DIJI_OK) return entered;
  Handle function = nullptr;
  if (const diji_status found = function_of(of(module), launch->entry, &function); found != DIJI_OK)
    return found;
  if (launch->grid <= 0) return DIJI_OK;
  const std::uint64_t stride =
      (launch->local_bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  std::uint64_t groups =
      std::min((static_cast<std::uint64_t>(launch->grid) + kGroup - 1) / kGroup, kGroupsMax);
  if (stride > 0) groups = std::clamp<std::uint64_t>(kScratchBytesMax / (stride * kGroup), 1, groups);
  if (const diji_status grown = grow_scratch(stream, groups * kGroup * stride); grown != DIJI_OK)
    return grown;
  std::vector<std::uint64_t> values = parameters_of(*launch, stride == 0 ? 0 : stream.scratch, stride);
  if (values.size() * sizeof(values[0]) > kParameterBytesMax)
    return fail(DIJI_ERROR_UNSUPPORTED,
                std::string(launch->entry) + ": more parameters than a kernel may have");
  std::vector<void*> parameters;
  for (std::uint64_t& value : values) parameters.push_back(&value);
  const Driver& driver = stream.device->driver();
  return checked(driver,
                 driver.launch(function, static_cast<unsigned>(groups), 1, 1, DIJI_SIMT_GROUP, 1, 1, 0,
                               stream.handle, parameters.data(), nullptr),
                 launch->entry);
}

}  // namespace diji::cuda_like
