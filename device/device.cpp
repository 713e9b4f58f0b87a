// Device, Buffer, Stream and Module: owners of a plugin's handles that turn its statuses into errors.
#include "device/device.h"

#include <utility>

namespace diji {

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

Event::Event(Event&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), handle_(std::exchange(other.handle_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  Event taken(std::move(other));  // what this one held goes at once, not with `other`
  std::swap(device_, taken.device_);
  std::swap(handle_, taken.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ != nullptr) device_->plugin().table().event_free(handle_);
}

Result<void> Event::record(Stream& stream) {
  const diji_status status = device_->plugin().table().event_record(handle_, stream.handle());
  if (status != DIJI_OK) return std::unexpected(device_->error_of(status, "event record"));
  return {};
}

Result<void> Event::hold(Stream& stream) const {
  const diji_status status = device_->plugin().table().event_wait(handle_, stream.handle());
  if (status != DIJI_OK) return std::unexpected(device_->error_of(status, "event wait"));
  return {};
}

Result<void> Event::sync() const {
  const diji_status status = device_->plugin().table().event_sync(handle_);
  if (status != DIJI_OK) return std::unexpected(device_->error_of(status, "event sync"));
  return {};
}

Result<std::uint64_t> Event::ns_since(const Event& earlier) const {
  std::uint64_t elapsed_ns = 0;
  const diji_status status =
      device_->plugin().table().event_elapsed_ns(earlier.handle_, handle_, &elapsed_ns);
  if (status != DIJI_OK) return std::unexpected(device_->error_of(status, "event time"));
  return elapsed_ns;
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

Constant::Constant(Constant&& other) noexcept
    : device_(other.device_),
      owner_(std::move(other.owner_)),
      imported_(std::exchange(other.imported_, nullptr)),
      copy_(std::move(other.copy_)) {}

Constant& Constant::operator=(Constant&& other) noexcept {
  Constant taken(std::move(other));  // what this one held goes at once, not with `other`
  std::swap(device_, taken.device_);
  std::swap(owner_, taken.owner_);
  std::swap(imported_, taken.imported_);
  std::swap(copy_, taken.copy_);
  return *this;
}

Constant::~Constant() {
  if (imported_ != nullptr) device_->plugin().table().free(device_->handle_, nullptr, imported_);
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
  device->default_pool_ = std::make_unique<MemoryPool>(*device, "default");
  return device;
}

Device::~Device() {
  if (handle_ == nullptr) return;
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

Result<Event> Device::new_event() {
  Event event;
  diji_event* handle = nullptr;
  const diji_status status = plugin_->table().event_new(handle_, &handle);
  if (status != DIJI_OK) return std::unexpected(error_of(status, "new event"));
  event.device_ = this;
  event.handle_ = handle;
  return event;
}

Result<std::uint64_t> Device::exchanged(const diji_exchange* exchange) {
  std::uint64_t now_ns = 0;
  const diji_status status = plugin_->table().exchanged(handle_, exchange, &now_ns);
  if (status != DIJI_OK) return std::unexpected(error_of(status, "exchange"));
  return now_ns;
}

Result<std::vector<std::byte>> Device::compile(std::string_view text) {
  const diji_kernel_text kernel = {sizeof(diji_kernel_text), text.data(), text.size()};
  const void* blob = nullptr;
  std::size_t blob_bytes = 0;
  const diji_status status = plugin_->table().compile(handle_, &kernel, &blob, &blob_bytes);
  if (status != DIJI_OK) {
    Error error = error_of(status, "compile");
    // Whatever stops the compiler lies with the device's side, not with the model.
    if (!info_.dialect.empty() && error.code == ErrorCode::unsupported) error.code = ErrorCode::device;
    return std::unexpected(std::move(error));
  }
  const std::unique_ptr<const void, void (*)(const void*)> owned(blob, plugin_->table().blob_free);
  const auto* bytes = static_cast<const std::byte*>(blob);
  return std::vector<std::byte>(bytes, bytes + blob_bytes);
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

Result<Constant> Device::import_constant(const HostTensor& tensor) {
  Constant constant;
  constant.device_ = this;
  constant.owner_ = tensor;
  const std::span<const std::byte> bytes = tensor.bytes();
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const bool aligned = address % static_cast<std::uintptr_t>(bytes_of(tensor.dtype())) == 0;
  if (info_.host_visible && aligned && !bytes.empty()) {
    const diji_status status = plugin_->table().import_host(handle_, bytes.data(), bytes.size(), nullptr,
                                                            nullptr, &constant.imported_);
    if (status == DIJI_OK) return constant;
    constant.imported_ = nullptr;
    if (status != DIJI_ERROR_UNSUPPORTED) return std::unexpected(error_of(status, "import of a constant"));
  }
  constant.copy_ = TRY(default_pool_->allocate(bytes.size()));
  if (bytes.empty()) return constant;
  Stream stream = TRY(new_stream());
  TRY(stream.copy_to_device(constant.copy_.place(), bytes));
  TRY(stream.sync());
  return constant;
}

Error Device::error_of(diji_status status, std::string_view call) const {
  ErrorCode code = ErrorCode::device;
  if (status == DIJI_ERROR_OUT_OF_MEMORY) code = ErrorCode::out_of_memory;
  if (status == DIJI_ERROR_UNSUPPORTED) code = ErrorCode::unsupported;
  return fail(code, "{}: {}: {}", name_, call, plugin_->last_error(status)).error();
}

}  // namespace diji
