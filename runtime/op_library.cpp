// Loads libraries of operators and takes their records in.
#include "runtime/op_library.h"

#include "device/plugin_file.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>

namespace diji {
namespace {

constexpr std::uint32_t kOpsMax = 256;
constexpr const char* kSymbol = "diji_op_library_entry";

template <typename... Args>
std::unexpected<Error> refuse(const std::string& origin, fmt::format_string<Args...> text, Args&&... args) {
  return fail(ErrorCode::no_device, "operator library {}: {}", origin,
              fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace

Result<void> OpLibraries::load(const std::string& path) {
  if (auto checked = check_plugin_file(path); !checked) return refuse(path, "{}", checked.error().message);
  // A name without a slash would be searched for in the system's folders instead.
  const std::string file = path.contains('/') ? path : "./" + path;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refuse(path, "it could not be loaded: {}", dlerror());
  const auto symbol = reinterpret_cast<decltype(&diji_op_library_entry)>(dlsym(library, kSymbol));
  if (symbol == nullptr) return refuse(path, "it exports no {}()", kSymbol);
  return add(symbol(), path);
}

Result<void> OpLibraries::add(const diji_op_library* library, const std::string& origin) {
  if (library == nullptr) return refuse(origin, "{}() returned null", kSymbol);
  if (library->struct_size < offsetof(diji_op_library, name))
    return refuse(origin, "its table has {} bytes", library->struct_size);
  if (library->abi_major != DIJI_OP_ABI_MAJOR) {
    return refuse(
        origin,
        "it was built for operator ABI {}.{}, this diji has {}.{}; rebuild it with this diji's header",
        library->abi_major, library->abi_minor, DIJI_OP_ABI_MAJOR, DIJI_OP_ABI_MINOR);
  }
  if (library->struct_size < sizeof(diji_op_library))
    return refuse(origin, "its table has {} bytes, {} are needed", library->struct_size,
                  sizeof(diji_op_library));
  if (library->ops == nullptr || library->op_count < 1 || library->op_count > kOpsMax)
    return refuse(origin, "it has {} operators; 1 to {} can be", library->op_count, kOpsMax);
  std::vector<std::unique_ptr<CustomOp>> added;
  std::vector<const OpDef*> records;
  for (std::uint32_t i = 0; i < library->op_count; ++i) {
    auto op = TRY(CustomOp::check(library->ops[i], origin));
    const OpDef* known = find_custom(records_, op->record().name);
    if (known == nullptr) known = find_custom(records, op->record().name);
    if (known != nullptr)
      return refuse(origin, "there is an operator {} already ({})", known->name, known->custom->library());
    records.push_back(&op->record());
    added.push_back(std::move(op));
  }
  for (const auto& op : added) TRY(op->link_gradient(records));
  records_.insert(records_.end(), records.begin(), records.end());
  std::ranges::move(added, std::back_inserter(ops_));
  return {};
}

}  // namespace diji
