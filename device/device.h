// Devices as the rest of diji sees them: plugin tables turned into owned buffers, streams, modules and pools.
#pragma once

#include "base/error.h"
#include "base/host_tensor.h"
#include "base/thread_pool.h"
#include "device/plugin.h"
#include "diji/device_plugin.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace diji {

class Device;
class MemoryPool;

/// A piece of device memory that a pool lent; goes back to the pool when destroyed, and may be lent again at
/// once. So it is destroyed after the work that uses it is done, or while only later work on the same stream
/// can use the memory again.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();
  diji_place place(std::uint64_t offset = 0) const { return {handle_, offset_ + offset}; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  friend class MemoryPool;
  MemoryPool* pool_ = nullptr;
  diji_buffer* handle_ = nullptr;
  std::uint64_t offset_ = 0;
  std::uint64_t bytes_ = 0;
};

/// Work in order. Created by a Device, which it must not outlive. One thread at a time.
class Stream {
 public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();
  Result<void> copy_to_device(diji_place dst, std::span<const std::byte> src);
  Result<void> copy_to_host(std::span<std::byte> dst, diji_place src);
  Result<void> copy_on_device(diji_place dst, diji_place src, std::uint64_t bytes);
  Result<void> sync();
  diji_stream* handle() const { return handle_; }
  Device& device() const { return *device_; }

 private:
  friend class Device;
  Stream() = default;
  Device* device_ = nullptr;
  diji_stream* handle_ = nullptr;
};

/// A mark in a stream's work. It need not outlive what waits for it. One thread at a time.
class Event {
 public:
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;
  ~Event();
  /// Marks the work now on the stream.
  Result<void> record(Stream& stream);
  /// Later work on the stream comes after the mark; the host does not wait.
  Result<void> hold(Stream& stream) const;
  /// Waits until the host can see what was marked.
  Result<void> sync() const;
  /// Between two recorded marks of work that is done. Errors: unsupported, where the device cannot tell.
  Result<std::uint64_t> ns_since(const Event& earlier) const;

 private:
  friend class Device;
  Event() = default;
  Device* device_ = nullptr;
  diji_event* handle_ = nullptr;
};

/// Loaded kernels. Unloaded when destroyed, after the streams that launched from it were synchronised.
class Module {
 public:
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;
  ~Module();
  /// Asynchronous. Errors: no such entry (a programmer's mistake of the caller, reported as device).
  Result<void> launch(Stream& stream, const diji_launch& launch) const;

 private:
  friend class Device;
  Module() = default;
  Device* device_ = nullptr;
  diji_module* handle_ = nullptr;
};

/// The numbers of a pool at one moment; printed in out-of-memory errors.
struct PoolState {
  std::uint64_t used_bytes = 0;   ///< lent now
  std::uint64_t held_bytes = 0;   ///< taken from the device, lent or kept for reuse
  std::uint64_t peak_bytes = 0;   ///< most ever lent at once
  std::uint64_t limit_bytes = 0;  ///< 0: no limit but the device's
};

/// Sub-allocates device memory in blocks it keeps: freed memory stays in the pool, best fit first.
/// Thread-safe. DIJI_POOL=off takes and returns every buffer at the device itself (for sanitizers).
class MemoryPool {
 public:
  MemoryPool(Device& device, std::string name, std::uint64_t limit_bytes = 0);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// Errors: out_of_memory with size, pool name and state in its fields; the pool stays usable. bytes may be
  /// 0.
  Result<Buffer> allocate(std::uint64_t bytes);
  PoolState state() const;
  const std::string& name() const;
  void set_limit(std::uint64_t bytes);
  /// Returns unused blocks to the device.
  void trim();

 private:
  friend class Buffer;
  void give_back(Buffer& buffer);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A host tensor as device memory: its own bytes where the device can use them, else a copy. Keeps the
/// tensor's owner.
class Constant {
 public:
  Constant(Constant&& other) noexcept;
  Constant& operator=(Constant&& other) noexcept;
  ~Constant();
  diji_place place() const { return imported_ != nullptr ? diji_place{imported_, 0} : copy_.place(); }
  /// Of the device's own memory; 0 where the device uses the tensor's bytes.
  std::uint64_t copied_bytes() const {
    return imported_ != nullptr ? 0 : std::max<std::uint64_t>(copy_.bytes(), 1);
  }

 private:
  friend class Device;
  Constant() = default;
  Device* device_ = nullptr;
  HostTensor owner_;
  diji_buffer* imported_ = nullptr;  ///< null: `copy_` holds it
  Buffer copy_;
};

/// One opened device. Thread-safe; outlives everything made from it.
class Device {
 public:
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }  ///< "cpu:0"
  const DeviceInfo& info() const { return info_; }
  const Plugin& plugin() const { return *plugin_; }
  ThreadPool& threads() const { return *threads_; }
  /// The pool for whoever has no pool of its own.
  MemoryPool& default_pool() { return *default_pool_; }
  /// The plugin's own, for calls of its table that have no function here.
  diji_device* handle() const { return handle_; }

  Result<Stream> new_stream();
  /// Errors: unsupported, where the device has no events.
  Result<Event> new_event();
  /// See diji_device_plugin_table::exchanged. Errors: unsupported, where the device keeps no clock.
  Result<std::uint64_t> exchanged(const diji_exchange* exchange);
  /// The device's compiler on kernel text. Errors: unsupported when the device is tier 0; device with the
  /// compiler's own words.
  Result<std::vector<std::byte>> compile(std::string_view text);
  /// A blob from compile(), of this process or an earlier one on an equal fingerprint.
  Result<Module> load(std::span<const std::byte> blob);
  /// Host memory as device memory without a copy where the device offers it and the address is aligned to the
  /// element (the place is then aligned to no more than that), else copied once.
  Result<Constant> import_constant(const HostTensor& tensor);

 private:
  friend class DeviceList;
  friend class MemoryPool;
  friend class Stream;
  friend class Event;
  friend class Module;
  friend class Constant;
  Device() = default;
  static Result<std::unique_ptr<Device>> open(const DeviceEntry& entry, const diji_host_services* services,
                                              ThreadPool& threads);
  Error error_of(diji_status status, std::string_view call) const;

  const Plugin* plugin_ = nullptr;
  diji_device* handle_ = nullptr;
  std::string name_;
  DeviceInfo info_;
  ThreadPool* threads_ = nullptr;
  std::unique_ptr<MemoryPool> default_pool_;
};

}  // namespace diji
