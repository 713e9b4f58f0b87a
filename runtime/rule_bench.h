// A device on the bench: opened through its plugin's table for one rule, with everything given back after it.
#pragma once

#include "runtime/rules.h"

#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace diji {

/// Handles of one rule. Goes in the order that the table asks for: streams, which wait, then modules,
/// events, buffers and the device; host memory last.
class RuleBench {
 public:
  static Result<std::unique_ptr<RuleBench>> open(const DeviceList& devices, const DeviceEntry& entry);
  ~RuleBench();
  RuleBench(const RuleBench&) = delete;
  RuleBench& operator=(const RuleBench&) = delete;

  const diji_device_plugin_table& table() const { return entry_.plugin->table(); }
  const DeviceEntry& entry() const { return entry_; }
  const DeviceList& devices() const { return devices_; }
  diji_device* device() const { return device_; }

  Result<diji_buffer*> alloc(std::uint64_t bytes);
  void free(diji_buffer* buffer, diji_stream* stream);
  Result<diji_stream*> stream();
  Result<diji_event*> event();
  /// Kernel text, compiled and loaded.
  Result<diji_module*> module(std::string_view text);
  /// Host memory that outlives the streams: bytes of a pattern that differs from seed to seed.
  std::span<std::byte> host(std::size_t bytes, unsigned seed);

  /// DIJI_OK or an error with the call, the status and the plugin's words.
  Result<void> ok(diji_status status, std::string_view call) const;
  /// An error unless `status` is one of the wanted, and last_error() says something.
  Result<void> refused(diji_status status, std::initializer_list<diji_status> wanted,
                       std::string_view call) const;
  Result<void> upload(diji_stream* stream, diji_place dst, std::span<const std::byte> src) const;
  Result<void> download(diji_stream* stream, std::span<std::byte> dst, diji_place src) const;
  Result<void> copy(diji_stream* stream, diji_place dst, diji_place src, std::uint64_t bytes) const;
  Result<void> sync(diji_stream* stream) const;

 private:
  RuleBench(const DeviceList& devices, const DeviceEntry& entry) : devices_(devices), entry_(entry) {}
  const DeviceList& devices_;
  const DeviceEntry& entry_;
  diji_device* device_ = nullptr;
  std::deque<std::vector<std::byte>> host_;
  std::vector<diji_buffer*> buffers_;
  std::vector<diji_event*> events_;
  std::vector<diji_module*> modules_;
  std::vector<diji_stream*> streams_;
};

/// The pattern of `host(bytes, seed)`.
std::byte pattern_at(std::size_t index, unsigned seed);
/// An error that names the first byte of `got` that is not `wanted`'s.
Result<void> same_bytes(std::span<const std::byte> got, std::span<const std::byte> wanted,
                        std::string_view what);

/// One rule: errors are failures, `unsupported` means that the device does not offer what it is about.
struct Rule {
  std::string_view name;
  Result<void> (*check)(RuleBench& bench);
};
/// The rule that all others rest on: nothing is checked where it does not hold.
Result<void> sync_waits(RuleBench& bench);
std::span<const Rule> memory_rules();
std::span<const Rule> stream_rules();
std::span<const Rule> kernel_rules();

}  // namespace diji
