// One group of ranks on one device.
#include "runtime/device_collective.h"

#include "base/host_memory.h"

#include <algorithm>
#include <limits>

namespace diji {
namespace {

using collective::Operation;

// How many blocks of `count` elements each side of a call has.
std::int64_t input_blocks(Operation operation, std::int64_t world) {
  return operation == Operation::reduce_scatter || operation == Operation::all_to_all ? world : 1;
}
std::int64_t output_blocks(Operation operation, std::int64_t world) {
  return operation == Operation::all_gather || operation == Operation::all_to_all ? world : 1;
}

// What a ring moves between neighbours, the least that any algorithm moves: in blocks of the call's count,
// and messages one behind the other.
struct Travel {
  double blocks = 0;
  std::int64_t messages = 0;
};
Travel travel_of(Operation operation, std::int64_t world) {
  const auto others = static_cast<double>(world - 1);
  switch (operation) {
    case Operation::all_reduce: return {2 * others / static_cast<double>(world), 2 * (world - 1)};
    case Operation::broadcast: return {1, world - 1};
    default: return {others, world - 1};
  }
}

diji_place behind(diji_place place, std::int64_t bytes) {
  place.offset += static_cast<std::uint64_t>(bytes);
  return place;
}

}  // namespace

// The same piece of every block at once.
struct DeviceGroup::Slices {
  const DeviceCall& call;
  std::int64_t element_bytes = 1;
  std::int64_t inputs = 1, outputs = 1;  // blocks
  std::int64_t length = 1;               // of a slice's part of a block, in elements
  std::array<std::optional<Event>, 2> copied;

  std::int64_t number() const { return std::max<std::int64_t>((call.count + length - 1) / length, 1); }
  std::int64_t first(std::int64_t slice) const { return slice * length; }
  std::int64_t count(std::int64_t slice) const { return std::min(length, call.count - first(slice)); }
};

DeviceGroup::DeviceGroup(Device& device, collective::Communicator& communicator, DeviceGroupOptions options,
                         Stream stream)
    : device_(device), communicator_(communicator), options_(options), stream_(std::move(stream)) {
  has_events_ = device_.new_event().has_value();
  has_clock_ = device_.exchanged(nullptr).has_value();
}

Result<std::unique_ptr<DeviceGroup>> DeviceGroup::create(Device& device,
                                                         collective::Communicator& communicator,
                                                         DeviceGroupOptions options) {
  Stream stream = TRY(device.new_stream());
  std::unique_ptr<DeviceGroup> group(new DeviceGroup(device, communicator, options, std::move(stream)));
  TRY(group->agree());
  group->thread_ = std::thread([raw = group.get()] { raw->work_off(); });
  return group;
}

DeviceGroup::~DeviceGroup() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  come_.notify_one();
  if (thread_.joinable()) thread_.join();
  (void)device_.plugin().table().stream_sync(stream_.handle());  // copies that read or write the slices
}

Result<std::shared_ptr<DeviceWork>> DeviceGroup::start(const DeviceCall& call, Stream& after) {
  auto work = std::make_shared<DeviceWork>();
  work->call_ = call;
  if (has_events_) {
    work->ready_ = TRY(device_.new_event());
    work->done_ = TRY(device_.new_event());
    TRY(work->ready_->record(after));
  } else {
    TRY(after.sync());
  }
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(work);
  }
  come_.notify_one();
  return work;
}

Result<void> DeviceGroup::join(DeviceWork& work, Stream& before) {
  {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return work.over_; });
  }
  TRY(work.result_);
  return work.done_ ? work.done_->hold(before) : Result<void>{};
}

Result<void> DeviceGroup::run(const DeviceCall& call, Stream& stream) {
  return join(*TRY(start(call, stream)), stream);
}

void DeviceGroup::drain() {
  {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return queue_.empty() && !busy_; });
  }
  (void)device_.plugin().table().stream_sync(stream_.handle());
}

void DeviceGroup::abort(const std::string& why) {
  communicator_.abort(why);
  drain();
}

void DeviceGroup::work_off() {
  while (true) {
    std::shared_ptr<DeviceWork> work;
    {
      std::unique_lock lock(mutex_);
      come_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
    }
    auto result = failure_ ? Result<void>(std::unexpected(*failure_))
                           : with_host_memory([&] { return perform(*work); });
    if (!result && !failure_) failure_ = result.error();
    {
      const std::scoped_lock lock(mutex_);
      work->result_ = std::move(result);
      work->over_ = true;
      busy_ = false;
    }
    over_.notify_all();
  }
}

// Whether anybody stages, in which case all take the same slices, and whether all keep clocks.
Result<void> DeviceGroup::agree() {
  const std::array<std::int32_t, 2> own = {options_.stages || !device_.info().host_visible ? 1 : 0,
                                           has_clock_ ? 0 : 1};
  std::array<std::int32_t, 2> any{};
  TRY(communicator_.run({.operation = Operation::all_reduce,
                         .input = own.data(),
                         .output = any.data(),
                         .count = 2,
                         .type = collective::ElementType::i32,
                         .reduction = collective::Reduction::max}));
  stages_ = any[0] != 0;
  has_clock_ = any[1] == 0;
  return {};
}

Result<void> DeviceGroup::perform(DeviceWork& work) {
  if (!stages_) {
    if (work.ready_) TRY(work.ready_->sync());
    work.done_.reset();  // the host has seen it
    return in_place(work.call_);
  }
  if (work.ready_) TRY(work.ready_->hold(stream_));
  TRY(staged(work.call_));
  if (work.done_) return work.done_->record(stream_);
  return stream_.sync();
}

Result<void> DeviceGroup::host_call(const DeviceCall& call, const void* input, void* output,
                                    std::int64_t count) {
  return communicator_.run({.operation = call.operation,
                            .input = input,
                            .output = output,
                            .count = count,
                            .type = call.type,
                            .reduction = call.reduction,
                            .root = call.root});
}

Result<void> DeviceGroup::in_place(const DeviceCall& call) {
  std::array<std::byte*, 2> memory{};
  const std::array<diji_place, 2> places = {call.input, call.output};
  for (std::size_t i = 0; i < places.size(); ++i) {
    void* mapped = nullptr;
    const diji_status status = device_.plugin().table().map(places[i].buffer, &mapped);
    if (status != DIJI_OK) {
      return fail(ErrorCode::device, "{}: map: {}", device_.name(), device_.plugin().last_error(status));
    }
    memory[i] = static_cast<std::byte*>(mapped) + places[i].offset;
  }
  return host_call(call, memory[0], memory[1], call.count);
}

// While the host exchanges one slice, the device copies the next one out and the last one in. On the stream a
// slice's copy to the host stands behind the copies back of the slice two before, so that whoever waited for
// the former may write what the latter read.
Result<void> DeviceGroup::staged(const DeviceCall& call) {
  const std::int64_t world = communicator_.world(), bytes = collective::bytes_of(call.type);
  Slices slices{.call = call,
                .element_bytes = bytes,
                .inputs = input_blocks(call.operation, world),
                .outputs = output_blocks(call.operation, world),
                .copied = {}};
  slices.length =
      std::max<std::int64_t>(options_.slice_bytes / (bytes * std::max(slices.inputs, slices.outputs)), 1);
  slices.length = std::min(slices.length, std::max<std::int64_t>(call.count, 1));
  TRY(make_room(static_cast<std::size_t>(slices.inputs * slices.length * bytes),
                static_cast<std::size_t>(slices.outputs * slices.length * bytes)));
  if (has_events_) {
    for (auto& event : slices.copied) event = TRY(device_.new_event());
  }
  const auto done = [&]() -> Result<void> {
    for (std::int64_t slice = 0; slice < std::min<std::int64_t>(slices.number(), 2); ++slice)
      TRY(copy_in(slices, slice));
    for (std::int64_t slice = 0; slice < slices.number(); ++slice) {
      TRY(exchange(slices, slice));
      TRY(copy_out(slices, slice));
      if (slice + 2 < slices.number()) TRY(copy_in(slices, slice + 2));
    }
    return {};
  }();
  if (!done) (void)device_.plugin().table().stream_sync(stream_.handle());
  return done;
}

Result<void> DeviceGroup::make_room(std::size_t sent, std::size_t received) {
  if (sent_[0].size() >= sent && received_[0].size() >= received) return {};
  TRY(stream_.sync());  // copies of the last call
  for (auto& slice : sent_) slice.resize(std::max(slice.size(), sent));
  for (auto& slice : received_) slice.resize(std::max(slice.size(), received));
  return {};
}

Result<void> DeviceGroup::copy_in(Slices& slices, std::int64_t slice) {
  const auto at = static_cast<std::size_t>(slice % 2);
  const auto bytes = static_cast<std::size_t>(slices.count(slice) * slices.element_bytes);
  for (std::int64_t block = 0; block < slices.inputs && bytes > 0; ++block) {
    const diji_place from =
        behind(slices.call.input, (block * slices.call.count + slices.first(slice)) * slices.element_bytes);
    TRY(stream_.copy_to_host(std::span(sent_[at]).subspan(static_cast<std::size_t>(block) * bytes, bytes),
                             from));
  }
  return has_events_ ? slices.copied[at]->record(stream_) : Result<void>{};
}

Result<void> DeviceGroup::exchange(Slices& slices, std::int64_t slice) {
  const auto at = static_cast<std::size_t>(slice % 2);
  TRY(has_events_ ? slices.copied[at]->sync() : stream_.sync());
  TRY(host_call(slices.call, sent_[at].data(), received_[at].data(), slices.count(slice)));
  return has_clock_ ? take_time(slices, slices.count(slice)) : Result<void>{};
}

// On devices with a clock of their own: all ranks leave the exchange when what it moves has travelled since
// the last of them was ready.
Result<void> DeviceGroup::take_time(const Slices& slices, std::int64_t count) {
  const std::uint64_t own = TRY(device_.exchanged(nullptr));
  std::uint64_t last = 0;
  TRY(communicator_.run({.operation = Operation::all_reduce,
                         .input = &own,
                         .output = &last,
                         .count = 1,
                         .type = collective::ElementType::u64,
                         .reduction = collective::Reduction::max}));
  const Travel travel = travel_of(slices.call.operation, communicator_.world());
  const double bytes = travel.blocks * static_cast<double>(count * slices.element_bytes);
  const diji_exchange exchange{.struct_size = sizeof(diji_exchange),
                               .messages = static_cast<std::uint32_t>(travel.messages),
                               .bytes = static_cast<std::uint64_t>(bytes),
                               .begin_ns = last};
  TRY(device_.exchanged(&exchange));
  return {};
}

Result<void> DeviceGroup::copy_out(Slices& slices, std::int64_t slice) {
  const auto at = static_cast<std::size_t>(slice % 2);
  const auto bytes = static_cast<std::size_t>(slices.count(slice) * slices.element_bytes);
  for (std::int64_t block = 0; block < slices.outputs && bytes > 0; ++block) {
    const diji_place to =
        behind(slices.call.output, (block * slices.call.count + slices.first(slice)) * slices.element_bytes);
    TRY(stream_.copy_to_device(
        to, std::span(received_[at]).subspan(static_cast<std::size_t>(block) * bytes, bytes)));
  }
  return {};
}

}  // namespace diji
