// Kernel text to a blob: by the system's C compiler or by LLVM, as the device was opened.
#include "plugins/cpu/cc/c_compiler.h"
#include "plugins/cpu/cpu_device.h"
#include "plugins/cpu/llvm_compiler.h"

#include <cstdlib>
#include <cstring>

namespace diji::cpu {
namespace {

// As libdiji_llvm.so gives a blob: malloc'd.
diji_status compile_text_in_c(const CpuDevice& device, const diji_kernel_text& text, const void** blob,
                              std::size_t* blob_bytes) {
  const auto compiler = find_c_compiler(device.target);
  if (!compiler) return fail_with(compiler.error());
  const auto object = compile_c(*compiler, {text.text, text.text_bytes});
  if (!object && object.error().code == ErrorCode::malformed)
    return fail_with(DIJI_ERROR_COMPILE, std::string_view(object.error().message));
  if (!object) return fail_with(object.error());
  void* copy = std::malloc(object->size());
  if (copy == nullptr) return fail_with(DIJI_ERROR_OUT_OF_MEMORY, "no memory for the object file");
  std::memcpy(copy, object->data(), object->size());
  *blob = copy;
  *blob_bytes = object->size();
  return DIJI_OK;
}

diji_status compile(diji_device* handle, const diji_kernel_text* text, const void** blob,
                    std::size_t* blob_bytes) {
  if (own<CpuDevice>(handle).in_c) return compile_text_in_c(own<CpuDevice>(handle), *text, blob, blob_bytes);
  const CpuTarget& target = own<CpuDevice>(handle).target;
  const auto compiled = compile_llvm(target, {text->text, text->text_bytes});
  if (!compiled && compiled.error().code == ErrorCode::malformed)
    return fail_with(DIJI_ERROR_COMPILE, std::string_view(compiled.error().message));
  if (!compiled) return fail_with(compiled.error());
  *blob = compiled->data;
  *blob_bytes = compiled->bytes;
  return DIJI_OK;
}

// Both kinds of blob are malloc'd.
void blob_free(const void* blob) { std::free(const_cast<void*>(blob)); }

}  // namespace

void add_compile_functions(diji_device_plugin_table& table) {
  table.compile = guarded<compile>;
  table.blob_free = blob_free;
}

}  // namespace diji::cpu
