// Collectives on device memory: in place where the host sees it, else through slices of host memory.
#pragma once

#include "collective/communicator.h"
#include "device/device.h"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace diji {

/// As collective::Call, with places of one device. Operations whose ranks all give and get: all_reduce,
/// all_gather, reduce_scatter, all_to_all and broadcast. Input and output do not overlap.
struct DeviceCall {
  collective::Operation operation = collective::Operation::all_reduce;
  diji_place input{}, output{};
  std::int64_t count = 0;  ///< elements of the vector (all_reduce, broadcast), else of a rank's block
  collective::ElementType type = collective::ElementType::f32;
  collective::Reduction reduction = collective::Reduction::sum;
  int root = 0;
};

/// A call that was handed over.
class DeviceWork {
 private:
  friend class DeviceGroup;
  DeviceCall call_;
  std::optional<Event> ready_, done_;  ///< none: the device has no events, or the host has seen to it
  bool over_ = false;
  Result<void> result_;
};

struct DeviceGroupOptions {
  bool stages = false;  ///< also where the host sees the device's memory
  /// Of host memory that a slice takes at most, of input and of output; equal on all ranks.
  std::int64_t slice_bytes = std::int64_t{4} << 20;
};

/// A communicator's ranks on one device: a thread and a stream of their own, which do what is handed over in
/// that order. While it lives nobody else calls the communicator. Every rank of it hands over the same calls
/// in the same order; if one rank stages, all do, so that devices may differ. One thread, or one run of a
/// model, at a time.
class DeviceGroup {
 public:
  /// A collective: every rank makes one. Both outlive it. Errors: those of Communicator::run, and the
  /// device's.
  static Result<std::unique_ptr<DeviceGroup>> create(Device& device, collective::Communicator& communicator,
                                                     DeviceGroupOptions options = {});
  /// Waits for what was handed over.
  ~DeviceGroup();
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  /// Returns at once. The call begins behind the work that is on `after` now, and its memory is borrowed
  /// until it was joined. Errors: the device's.
  Result<std::shared_ptr<DeviceWork>> start(const DeviceCall& call, Stream& after);
  /// Later work on `before` comes behind the call. Waits for the exchange, not for the copies behind it.
  /// Errors: those of Communicator::run, and the device's.
  Result<void> join(DeviceWork& work, Stream& before);
  /// Both.
  Result<void> run(const DeviceCall& call, Stream& stream);
  /// Waits until nothing of it uses any memory, also after errors.
  void drain();
  /// Ends what any rank does here with `aborted`, and drains.
  void abort(const std::string& why);
  collective::Communicator& communicator() { return communicator_; }
  Device& device() { return device_; }

 private:
  DeviceGroup(Device& device, collective::Communicator& communicator, DeviceGroupOptions options,
              Stream stream);
  void work_off();
  Result<void> perform(DeviceWork& work);
  Result<void> agree();
  Result<void> in_place(const DeviceCall& call);
  struct Slices;
  Result<void> staged(const DeviceCall& call);
  Result<void> make_room(std::size_t sent, std::size_t received);
  Result<void> copy_in(Slices& slices, std::int64_t slice);
  Result<void> exchange(Slices& slices, std::int64_t slice);
  Result<void> copy_out(Slices& slices, std::int64_t slice);
  Result<void> take_time(const Slices& slices, std::int64_t count);
  Result<void> host_call(const DeviceCall& call, const void* input, void* output, std::int64_t count);

  Device& device_;
  collective::Communicator& communicator_;
  DeviceGroupOptions options_;
  Stream stream_;
  bool has_events_ = false;
  bool has_clock_ = false;                                 ///< it simulates time
  bool stages_ = false;                                    ///< as the ranks have agreed
  std::array<std::vector<std::byte>, 2> sent_, received_;  ///< of two slices at a time
  std::optional<Error> failure_;                           ///< of an earlier call: none after it can be right

  std::mutex mutex_;
  std::condition_variable come_, over_;
  std::deque<std::shared_ptr<DeviceWork>> queue_;
  bool busy_ = false;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace diji
