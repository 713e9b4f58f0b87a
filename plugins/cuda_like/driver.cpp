// Opening a maker's libraries, the facts of its devices, and sentences about failures.
#include "plugins/cuda_like/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace diji::cuda_like {
namespace {

constexpr int kDevicesMax = 64;

thread_local char last_sentence[1024];

// The first library that opens; `why` is the loader's sentence about the first one that does not.
void* open_one(std::span<const char* const> names, std::string& why) {
  for (const char* name : names) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
    if (why.empty()) why = dlerror();
  }
  return nullptr;
}

// Fills a struct of nothing but function pointers, in the order of the names. A maker whose interface is
// younger than CUDA's second version has its functions without a number.
template <typename Functions>
bool take(void* library, const Api& api, Functions& functions, std::string& why) {
  static_assert(sizeof(Functions) % sizeof(void*) == 0);
  for (std::size_t i = 0; i < api.names.size(); ++i) {
    const std::string name = std::string(api.prefix) + api.names[i];
    void* found = dlsym(library, name.c_str());
    if (found == nullptr && name.ends_with("_v2"))
      found = dlsym(library, name.substr(0, name.size() - std::strlen("_v2")).c_str());
    if (found == nullptr) {
      why = "the library has no function " + name;
      return false;
    }
    std::memcpy(reinterpret_cast<char*>(&functions) + i * sizeof(found), &found, sizeof(found));
  }
  return true;
}

DeviceFacts facts_of(const Loaded& loaded, void* library, int id, const std::string& versions) {
  DeviceFacts facts{.id = id};
  char name[256] = "";
  std::size_t bytes = 0;
  if (loaded.driver.device_name(name, sizeof(name), id) == 0) facts.name = name;
  if (loaded.driver.memory_bytes(&bytes, id) == 0) facts.memory_bytes = bytes;
  facts.chip = loaded.maker->chip(library, id);
  facts.driver = versions;
  facts.features = facts.chip;
  facts.fingerprint = facts.name + ", " + facts.chip + ", " + versions;
  return facts;
}

}  // namespace

Loaded::Loaded(const Maker& which) : maker(&which) {
  void* library = open_one(which.driver_libraries, absent);
  if (library == nullptr || !take(library, which.driver, driver, absent)) return;
  absent.clear();
  int count = 0, driver_version = 0;
  int error = driver.init(0);
  if (error == 0) error = driver.device_count(&count);
  if (error != 0) {
    checked(driver, error, (std::string(which.driver.prefix) + "Init").c_str());
    absent = last_error();
    forget_error();
    return;
  }
  if (count <= 0) absent = "the driver shows no device";
  driver.driver_version(&driver_version);
  std::string versions = "driver " + std::to_string(driver_version);
  void* compiler_library = open_one(which.compiler_libraries, no_compiler);
  compiles = compiler_library != nullptr && take(compiler_library, which.compiler, compiler, no_compiler);
  int major = 0, minor = 0;
  if (compiles && compiler.version(&major, &minor) == 0)
    versions += ", compiler " + std::to_string(major) + "." + std::to_string(minor);
  for (int ordinal = 0; ordinal < std::min(count, kDevicesMax); ++ordinal) {
    int id = 0;
    if (driver.device(&id, ordinal) == 0) devices.push_back(facts_of(*this, library, id, versions));
  }
}

diji_status fail(diji_status status, const std::string& sentence) {
  std::snprintf(last_sentence, sizeof(last_sentence), "%s", sentence.c_str());
  return status;
}

const char* last_error() { return last_sentence; }
void forget_error() { last_sentence[0] = '\0'; }

diji_status checked(const Driver& driver, int error, const char* what) {
  constexpr int kOutOfMemory = 2;  // CUDA's and HIP's
  if (error == 0) return DIJI_OK;
  const char* name = nullptr;
  if (driver.error_name == nullptr || driver.error_name(error, &name) != 0 || name == nullptr)
    name = "an error without a name";
  return fail(error == kOutOfMemory ? DIJI_ERROR_OUT_OF_MEMORY : DIJI_ERROR_DEVICE,
              std::string(what) + ": " + name + " (" + std::to_string(error) + ")");
}

diji_status enter(const Device& device) {
  return checked(device.driver(), device.driver().context_set(device.context), "making the device current");
}

}  // namespace diji::cuda_like
