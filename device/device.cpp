// Device, Buffer, Stream and Module: owners of a plugin's handles that turn its statuses into errors.
#include "device/device.h"

#include <map>
#include <mutex>
#include <utility>

namespace diji {

/// Constants by the bytes they are.
struct Device::Imported {
  struct Constant {
    HostTensor owner;
    diji_buffer* handle = nullptr;  ///< imported without a copy, or null and `copy` holds it
    Buffer copy;
    diji_place place() const { return handle != nullptr ? diji_place{handle, 0} : copy.place(); }
  };
  using Key = std::pair<const std::byte*, std::size_t>;

  std::mutex mutex;
  std::map<Key, Constant> constants;
};

Buffer::Buffer(Buffer&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      handle_(std::exchange(other.handle_, nullptr)),
      offset_(std::exchange(other.offset_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer taken(std::move(other));  // what this one held goes back at once, not with `other`
  std::swap(pool_, taken.pool_);
  std::swap(handle_, taken.handle_);
  std::swap(offset_, taken.offset_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (pool_ != nullptr) pool_->give_back(*this);
}

Stream::Stream(Stream&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), handle_(std::exchange(other.handle_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  Stream taken(std::move(other));  // what this one held goes at once, not with `other`
  std::swap(device_, taken.device_);
  std::swap(handle_, taken.handle_);
  return *this;
}

Stream::~Stream() {
  if (handle_ != nullptr) device_->plugin().table().stream_free(handle_);
}

Result<void> Stream::copy_to_device(diji_place dst, std::span<const std::byte> src) {
  const diji_status status = device_->plugin().table().copy_to_device(handle_, dst, src.data(), src.size());
  if (status != DIJI_OK) return std::unexpected(device_->error_of(status, "copy to the device"));
  return {};
}

Result<void> Stream::copy_to_host(std::span<std::byte> dst, diji_place src) {
  const diji_status status = device_->plugin().table().copy_to_host(handle_, dst.data(), src, dst.size());
  if (status != DIJI_OK) return std::unexpected(device_->error_of(status, "copy to the host"));
  return {};
}

Result<void> Stream::copy_on_device(diji_place dst, diji_place src, std::uint64_t bytes) {
  const diji_status status = device_->plugin().table().copy_on_device(handle_, dst, src, bytes);
  if (status != DIJI_OK) return std::unexpected(device_->error_of(status, "copy on the device"));
  return {};
}

Result<void> Stream::sync() {
  const diji_status status = device_->plugin().table().stream_sync(handle_);
  if (status != DIJI_OK) return std::unexpected(device_->error_of(status, "stream sync"));
  return {};
}

Module::Module(Module&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), handle_(std::exchange(other.handle_, nullptr)) {}

Module& Module::operator=(Module&& other) noexcept {
  Module taken(std::move(other));  // what this one held goes at once, not with `other`
  std::swap(device_, taken.device_);
  std::swap(handle_, taken.handle_);
  return *this;
}

Module::~Module() {
  if (handle_ != nullptr) device_->plugin().table().unload(handle_);
}

Result<void> Module::launch(Stream& stream, const diji_launch& launch) const {
  CHECK(&stream.device() == device_, "a kernel is launched on a stream of the device that loaded it");
  const diji_status status = device_->plugin().table().launch(stream.handle(), handle_, &launch);
  if (status == DIJI_OK) return {};
  Error error = device_->error_of(status, "launch");
  if (status == DIJI_ERROR_UNSUPPORTED) error.code = ErrorCode::device;
  return std::unexpected(std::move(error));
}

Result<std::unique_ptr<Device>> Device::open(const DeviceEntry& entry, const diji_host_services* services,
                                             ThreadPool& threads) {
  std::unique_ptr<Device> device(new Device());
  device->plugin_ = entry.plugin;
  device->name_ = entry.name;
  device->info_ = entry.info;
  device->threads_ = &threads;
  diji_device* handle = nullptr;
  const diji_status status = entry.plugin->table().open(entry.ordinal, services, &handle);
  if (status != DIJI_OK) {
    Error error = device->error_of(status, "open");
    error.code = ErrorCode::no_device;
    return std::unexpected(std::move(error));
  }
  if (handle == nullptr)
    return fail(ErrorCode::no_device, "{}: open succeeded but gave no device", entry.name);
  device->handle_ = handle;
  device->imported_ = std::make_unique<Imported>();
  device->default_pool_ = std::make_unique<MemoryPool>(*device, "default");
  return device;
}

Device::~Device() {
  if (handle_ == nullptr) return;
  for (const auto& [key, constant] : imported_->constants) {
    if (constant.handle != nullptr) plugin_->table().free(handle_, nullptr, constant.handle);
  }
  imported_.reset();
  default_pool_.reset();
  plugin_->table().close(handle_);
}

Result<Stream> Device::new_stream() {
  Stream stream;
  diji_stream* handle = nullptr;
  const diji_status status = plugin_->table().stream_new(handle_, &handle);
  if (status != DIJI_OK) return std::unexpected(error_of(status, "new stream"));
  stream.device_ = this;
  stream.handle_ = handle;
  return stream;
}

Result<std::vector<std::byte>> Device::compile(std::string_view text) {
  const diji_kernel_text kernel = {sizeof(diji_kernel_text), text.data(), text.size()};
  const void* blob = nullptr;
  std::size_t blob_bytes = 0;
  const diji_status status = plugin_->table().compile(handle_, &kernel, &blob, &blob_bytes);
  if (status != DIJI_OK) return std::unexpected(error_of(status, "compile"));
  const auto* bytes = static_cast<const std::byte*>(blob);
  std::vector<std::byte> copy(bytes, bytes + blob_bytes);
  plugin_->table().blob_free(blob);
  return copy;
}

Result<Module> Device::load(std::span<const std::byte> blob) {
  Module module;
  diji_module* handle = nullptr;
  const diji_status status = plugin_->table().load(handle_, blob.data(), blob.size(), &handle);
  if (status != DIJI_OK) {
    Error error = error_of(status, "load");
    if (status == DIJI_ERROR_INVALID)
      error.code = ErrorCode::malformed;  // a damaged cache entry, not a device's failure
    return std::unexpected(std::move(error));
  }
  module.device_ = this;
  module.handle_ = handle;
  return module;
}

Result<diji_place> Device::copy_constant(const HostTensor& tensor, Buffer& buffer) {
  buffer = TRY(default_pool_->allocate(tensor.bytes().size()));
  Stream stream = TRY(new_stream());
  TRY(stream.copy_to_device(buffer.place(), tensor.bytes()));
  TRY(stream.sync());
  return buffer.place();
}

Result<diji_place> Device::import_constant(const HostTensor& tensor) {
  const std::span<const std::byte> bytes = tensor.bytes();
  const Imported::Key key = {bytes.data(), bytes.size()};
  {
    const std::scoped_lock lock(imported_->mutex);
    const auto known = imported_->constants.find(key);
    if (known != imported_->constants.end()) return known->second.place();
  }
  Imported::Constant constant;
  constant.owner = tensor;
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const bool aligned = address % static_cast<std::uintptr_t>(bytes_of(tensor.dtype())) == 0;
  if (info_.host_visible && aligned && !bytes.empty()) {
    const auto& table = plugin_->table();
    const diji_status status =
        table.import_host(handle_, bytes.data(), bytes.size(), nullptr, nullptr, &constant.handle);
    if (status != DIJI_OK && status != DIJI_ERROR_UNSUPPORTED) {
      return std::unexpected(error_of(status, "import of a constant"));
    }
    if (status != DIJI_OK) constant.handle = nullptr;
  }
  if (constant.handle == nullptr) TRY(copy_constant(tensor, constant.copy));
  const std::scoped_lock lock(imported_->mutex);
  // Another thread may have been quicker with the same bytes; then ours is given back below, and theirs is
  // the place.
  const auto [kept, inserted] = imported_->constants.try_emplace(key, std::move(constant));
  if (!inserted && constant.handle != nullptr) plugin_->table().free(handle_, nullptr, constant.handle);
  return kept->second.place();
}

Error Device::error_of(diji_status status, std::string_view call) const {
  ErrorCode code = ErrorCode::device;
  if (status == DIJI_ERROR_OUT_OF_MEMORY) code = ErrorCode::out_of_memory;
  if (status == DIJI_ERROR_UNSUPPORTED) code = ErrorCode::unsupported;
  return fail(code, "{}: {}: {}", name_, call, plugin_->last_error(status)).error();
}

}  // namespace diji
