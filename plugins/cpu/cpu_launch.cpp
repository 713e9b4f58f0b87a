// Modules and launches: compiled kernels called over a grid by the host's threads.
#include "plugins/cpu/cpu_device.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace diji::cpu {
namespace {

/// Launches with up to this many buffers need no allocation; fused kernels have fewer.
constexpr std::size_t kPlacesInline = 64;
/// Blocks a worker: small enough that the last block to end does not keep the others waiting for long (1/8 of
/// a worker's share), large enough that claiming is rare.
constexpr std::int64_t kBlocksPerWorker = 8;
constexpr std::uint64_t kErrorWordBytes = 8;

/// What every block of one launch is called with.
struct Call {
  KernelFunction function;
  void* const* places;
  const std::int64_t* sizes;
  void* error_word;
  std::byte* local;          ///< of worker 0
  std::size_t local_stride;  ///< to the next worker's
};

DIJI_CALLS_KERNEL void run_block(void* data, std::int64_t begin, std::int64_t end, std::int32_t worker) {
  const auto& call = *static_cast<const Call*>(data);
  void* local =
      call.local == nullptr ? nullptr : call.local + call.local_stride * static_cast<std::size_t>(worker);
  call.function(call.places, call.sizes, call.error_word, local, begin, end);
}

/// Scratch memory taken from the device for one launch; several streams may launch at once.
class BorrowedScratch {
 public:
  /// False: no memory.
  bool take(CpuDevice& device, std::size_t bytes) {
    device_ = &device;
    if (bytes == 0) return true;
    {
      const std::scoped_lock lock(device.mutex);
      if (!device.idle_scratch.empty()) {
        scratch_ = device.idle_scratch.back();
        device.idle_scratch.pop_back();
      }
    }
    if (scratch_.bytes >= bytes) return true;
    free_host(scratch_.pointer);
    scratch_ = {allocate_host(bytes), bytes};
    if (scratch_.pointer == nullptr) scratch_.bytes = 0;
    return scratch_.pointer != nullptr;
  }
  ~BorrowedScratch() {
    if (scratch_.pointer == nullptr) return;
    const std::scoped_lock lock(device_->mutex);
    auto& idle = device_->idle_scratch;
    if (idle.size() < idle.capacity()) {  // growing could fail
      idle.push_back(scratch_);
    } else {
      free_host(scratch_.pointer);
    }
  }
  BorrowedScratch() = default;
  BorrowedScratch(const BorrowedScratch&) = delete;
  BorrowedScratch& operator=(const BorrowedScratch&) = delete;
  std::byte* pointer() const { return scratch_.pointer; }

 private:
  CpuDevice* device_ = nullptr;
  CpuScratch scratch_;
};

diji_status fail_on(CpuStream& stream, diji_status status, std::string reason) {
  stream.failure = status;
  stream.reason = std::move(reason);
  return fail_with(status, std::string_view(stream.reason));
}

/// The first thing wrong with a launch's arguments.
std::optional<std::string> fault_in(const diji_launch& launch) {
  if (launch.struct_size < sizeof(diji_launch))
    return fmt::format("its record has {} bytes", launch.struct_size);
  if (launch.grid < 0) return fmt::format("grid {} is negative", launch.grid);
  for (std::uint32_t i = 0; i < launch.place_count; ++i) {
    if (in_range(launch.places[i], 0)) continue;
    return fmt::format("buffer argument {} is null or its offset {} is outside the buffer", i,
                       launch.places[i].offset);
  }
  if (!in_range(launch.error_word, kErrorWordBytes)) return "the error word is not 8 bytes inside a buffer";
  if (launch.error_word.offset % kErrorWordBytes != 0) return "the error word is not aligned to 8 bytes";
  return std::nullopt;
}

void* pointer_to(const diji_place& place) { return own<CpuBuffer>(place.buffer).pointer + place.offset; }

diji_status launch(diji_stream* handle, diji_module* module, const diji_launch* launch) {
  auto& stream = own<CpuStream>(handle);
  if (stream.failure != DIJI_OK) return fail_with(stream.failure, std::string_view(stream.reason));
  const std::string_view entry = launch->entry == nullptr ? "" : launch->entry;
  const LoadedObject& object = *own<CpuModule>(module).object;
  const KernelFunction function = object.find(entry);
  if (function == nullptr) {
    return fail_on(stream, DIJI_ERROR_UNSUPPORTED,
                   fmt::format("launch: the module has no entry '{}'; it has {}", entry,
                               fmt::join(object.names(), ", ")));
  }
  if (const auto fault = fault_in(*launch)) {
    return fail_on(stream, DIJI_ERROR_INVALID, fmt::format("launch of '{}': {}", entry, *fault));
  }
  if (launch->grid == 0) return DIJI_OK;

  const diji_host_services& host = *stream.device->host;
  const std::int64_t workers = std::max<std::int32_t>(host.workers, 1);
  const bool alone = workers == 1 || launch->grid == 1;
  const std::uint64_t stride = (launch->local_bytes + kAlignment - 1) / kAlignment * kAlignment;
  BorrowedScratch scratch;
  if (launch->local_bytes > std::numeric_limits<std::uint32_t>::max() ||
      !scratch.take(*stream.device, stride * static_cast<std::uint64_t>(workers))) {
    return fail_on(stream, DIJI_ERROR_OUT_OF_MEMORY,
                   fmt::format("launch of '{}': no {} bytes of scratch memory for each of {} threads", entry,
                               launch->local_bytes, workers));
  }
  std::array<void*, kPlacesInline> inline_places;
  std::vector<void*> more_places;
  void** places = inline_places.data();
  if (launch->place_count > kPlacesInline) {
    more_places.resize(launch->place_count);
    places = more_places.data();
  }
  for (std::uint32_t i = 0; i < launch->place_count; ++i) places[i] = pointer_to(launch->places[i]);

  Call call{function,          places,
            launch->sizes,     pointer_to(launch->error_word),
            scratch.pointer(), static_cast<std::size_t>(stride)};
  if (alone) {
    run_block(&call, 0, launch->grid, 0);
  } else {
    const std::int64_t blocks = workers * kBlocksPerWorker;
    const std::int64_t grain = launch->grid / blocks + (launch->grid % blocks == 0 ? 0 : 1);
    host.parallel_for(host.context, launch->grid, grain, run_block, &call);
  }
  return DIJI_OK;
}

diji_status load(diji_device*, const void* blob, std::size_t blob_bytes, diji_module** out) {
  const std::span bytes(static_cast<const std::byte*>(blob), blob_bytes);
  auto object = cpu_facts().links_c ? LoadedObject::load_either(bytes) : LoadedObject::load(bytes);
  if (!object) return fail_with(object.error());
  auto module = std::make_unique<CpuModule>();
  module->object = *std::move(object);
  *out = reinterpret_cast<diji_module*>(module.release());
  return DIJI_OK;
}

void unload(diji_module* module) { const std::unique_ptr<CpuModule> owned(&own<CpuModule>(module)); }

}  // namespace

void add_module_functions(diji_device_plugin_table& table) {
  table.load = guarded<load>;
  table.unload = unload;
  table.launch = guarded<launch>;
}

}  // namespace diji::cpu
