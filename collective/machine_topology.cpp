// hwloc's tree, walked from each hardware thread upwards. Opened at run time, as the OpenCL loader is:
// nothing else of diji needs it, and no program starts slower for it.
#include "collective/machine_topology.h"

#include "base/cores.h"

#if __has_include(<hwloc.h>) && __has_include(<hwloc/autogen/config.h>)
#include <hwloc.h>
#define DIJI_HWLOC 1
#endif

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

namespace diji::collective {

#ifdef DIJI_HWLOC
namespace {

constexpr const char* kLibrary = "libhwloc.so.15";

struct Hwloc {
  decltype(&hwloc_topology_init) init = nullptr;
  decltype(&hwloc_topology_destroy) destroy = nullptr;
  decltype(&hwloc_topology_set_flags) set_flags = nullptr;
  decltype(&hwloc_topology_set_synthetic) set_synthetic = nullptr;
  decltype(&hwloc_topology_load) load = nullptr;
  decltype(&hwloc_get_type_depth) type_depth = nullptr;
  decltype(&hwloc_get_nbobjs_by_depth) object_count = nullptr;
  decltype(&hwloc_get_obj_by_depth) object = nullptr;
  decltype(&hwloc_topology_get_allowed_cpuset) allowed_cpus = nullptr;
  decltype(&hwloc_bitmap_isset) is_set = nullptr;
  decltype(&hwloc_bitmap_first) first = nullptr;
};

template <typename Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<Hwloc> open_hwloc() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) {
    return fail(
        ErrorCode::unsupported,
        "the topology is read by hwloc, which is not here ({}); install it: apt-get install libhwloc15",
        dlerror());
  }
  Hwloc hwloc;
  const bool whole = resolve(library, "hwloc_topology_init", hwloc.init) &&
                     resolve(library, "hwloc_topology_destroy", hwloc.destroy) &&
                     resolve(library, "hwloc_topology_set_flags", hwloc.set_flags) &&
                     resolve(library, "hwloc_topology_set_synthetic", hwloc.set_synthetic) &&
                     resolve(library, "hwloc_topology_load", hwloc.load) &&
                     resolve(library, "hwloc_get_type_depth", hwloc.type_depth) &&
                     resolve(library, "hwloc_get_nbobjs_by_depth", hwloc.object_count) &&
                     resolve(library, "hwloc_get_obj_by_depth", hwloc.object) &&
                     resolve(library, "hwloc_topology_get_allowed_cpuset", hwloc.allowed_cpus) &&
                     resolve(library, "hwloc_bitmap_isset", hwloc.is_set) &&
                     resolve(library, "hwloc_bitmap_first", hwloc.first);
  if (!whole) return fail(ErrorCode::unsupported, "{} is another hwloc than 2.x: {}", kLibrary, dlerror());
  return hwloc;
}

class Tree {
 public:
  explicit Tree(const Hwloc& hwloc) : hwloc_(hwloc) { hwloc_.init(&topology_); }
  ~Tree() { hwloc_.destroy(topology_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  Result<Host> of_machine(CoresOf whose) {
    hwloc_.set_flags(topology_, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_.load(topology_) != 0) return fail(ErrorCode::unsupported, "hwloc cannot read this machine");
    cpu_set_t mask;
    CPU_ZERO(&mask);
    const bool knows_mask = whose == CoresOf::process && sched_getaffinity(0, sizeof mask, &mask) == 0;
    const hwloc_const_bitmap_t allowed = hwloc_.allowed_cpus(topology_);
    Host host = host_of([&](unsigned pu) {
      return hwloc_.is_set(allowed, pu) != 0 && (!knows_mask || pu >= CPU_SETSIZE || CPU_ISSET(pu, &mask));
    });
    std::error_code ignored;  // hwloc makes up a node where the system shows none
    if (!std::filesystem::exists("/sys/devices/system/node", ignored)) host.machine_numa_nodes = 0;
    char name[256] = {};
    if (gethostname(name, sizeof(name) - 1) == 0) host.name = name;
    host.quota_cores = cgroup_cores("/").value_or(0);
    return host;
  }

  Result<Host> of_description(const std::string& description) {
    if (hwloc_.set_synthetic(topology_, description.c_str()) != 0 || hwloc_.load(topology_) != 0)
      return fail(ErrorCode::usage, "'{}' describes no machine in hwloc's words", description);
    return host_of([](unsigned) { return true; });
  }

 private:
  int count(hwloc_obj_type_t type) const {
    const int depth = hwloc_.type_depth(topology_, type);
    return depth == HWLOC_TYPE_DEPTH_UNKNOWN ? 0 : static_cast<int>(hwloc_.object_count(topology_, depth));
  }

  static hwloc_obj_t above(hwloc_obj_t object, hwloc_obj_type_t type) {
    while (object != nullptr && object->type != type) object = object->parent;
    return object;
  }
  static int number_of(hwloc_obj_t object) {
    return object == nullptr ? 0 : static_cast<int>(object->logical_index);
  }
  // The largest cache that is not the whole machine's business: L3, else L2, else none.
  static hwloc_obj_t cache_above(hwloc_obj_t object) {
    hwloc_obj_t cache = above(object, HWLOC_OBJ_L3CACHE);
    return cache != nullptr ? cache : above(object, HWLOC_OBJ_L2CACHE);
  }

  static std::string processor_of(hwloc_obj_t object) {
    for (; object != nullptr; object = object->parent) {
      for (unsigned i = 0; i < object->infos_count; ++i) {
        if (std::string_view(object->infos[i].name) == "CPUModel") return object->infos[i].value;
      }
    }
    return "";
  }

  template <typename Usable>
  Host host_of(const Usable& usable) {
    Host host;
    host.machine_numa_nodes = count(HWLOC_OBJ_NUMANODE);
    const int depth = hwloc_.type_depth(topology_, HWLOC_OBJ_PU);
    host.machine_pus = static_cast<int>(hwloc_.object_count(topology_, depth));
    std::map<std::tuple<int, int, int, int>, Core> cores;  // by package, NUMA node, cache, core
    for (int i = 0; i < host.machine_pus; ++i) {
      hwloc_obj_t pu = hwloc_.object(topology_, depth, static_cast<unsigned>(i));
      if (!usable(pu->os_index)) continue;
      const int package = number_of(above(pu, HWLOC_OBJ_PACKAGE));
      const int numa = std::max(hwloc_.first(pu->nodeset), 0);
      hwloc_obj_t cache = cache_above(pu);
      hwloc_obj_t core = above(pu, HWLOC_OBJ_CORE);
      // Without a cache to tell, the NUMA node is one; without cores, each hardware thread.
      const int cache_number = cache != nullptr ? number_of(cache) : numa;
      const int core_number = core != nullptr ? number_of(core) : i;
      Core& one = cores[{package, numa, cache_number, core_number}];
      one.package = package;
      one.numa = numa;
      one.cache = cache_number;
      one.pus.push_back(static_cast<int>(pu->os_index));
      if (host.processor.empty()) host.processor = processor_of(pu);
    }
    for (auto& [key, core] : cores) host.cores.push_back(std::move(core));
    return host;
  }

  Hwloc hwloc_;
  hwloc_topology_t topology_ = nullptr;
};

}  // namespace

Result<Host> host_of_machine(CoresOf whose) { return Tree(TRY(open_hwloc())).of_machine(whose); }

Result<Host> host_of_description(const std::string& description) {
  return Tree(TRY(open_hwloc())).of_description(description);
}

#else

namespace {
std::unexpected<Error> built_without() {
  return fail(
      ErrorCode::unsupported,
      "this diji was built without hwloc, which reads the topology; install libhwloc-dev and build again");
}
}  // namespace

Result<Host> host_of_machine(CoresOf) { return built_without(); }
Result<Host> host_of_description(const std::string&) { return built_without(); }

#endif

}  // namespace diji::collective
