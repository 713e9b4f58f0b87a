// Combines the elements of collectives by kernels that are generated for a device.
#pragma once

#include "collective/reduce.h"
#include "device/device.h"
#include "runtime/compile_cache.h"
#include "runtime/executable.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

namespace diji {

/// For CommunicatorOptions::reducer. The elements are in host memory: a device that sees it works in place,
/// another one gets copies. A kernel for each reduction and pair of types is compiled where it is first
/// needed. Any thread; one call at a time goes on.
class DeviceReducer final : public collective::Reducer {
 public:
  /// Both outlive it. Errors: the device's; unsupported, where it compiles no kernels.
  static Result<std::unique_ptr<DeviceReducer>> create(Device& device, CompileCache& cache);

  Result<void> combine(collective::Reduction reduction, collective::ElementType accumulator,
                       std::byte* target, collective::Operand left, collective::Operand right,
                       std::int64_t count) override;
  /// Calls that the device did, and those for which there is no kernel (logical reductions, bool, 8-bit
  /// floats), which the host did.
  std::int64_t on_device() const { return on_device_; }
  std::int64_t on_host() const { return on_host_; }

 private:
  using Key = std::tuple<collective::Reduction, DType, DType, DType>;  ///< accumulator, left, right
  DeviceReducer(Device& device, CompileCache& cache, Stream stream, Buffer error_word)
      : device_(device), cache_(cache), error_word_(std::move(error_word)), stream_(std::move(stream)) {}
  Result<std::shared_ptr<const Executable>> kernel(const Key& key);
  Result<void> launch(const Executable& executable, std::span<const diji_place> places, std::int64_t count);
  class Operands;

  Device& device_;
  CompileCache& cache_;
  Buffer error_word_;
  Stream stream_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Executable>> kernels_;
  std::vector<std::byte> apart_;  ///< for results that lie where an operand does
  std::int64_t on_device_ = 0, on_host_ = 0;
};

}  // namespace diji
