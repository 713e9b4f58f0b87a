// One running instance of a program: its sizes, its memory, and the frames of the bodies it runs.
#pragma once

#include "runtime/device_collective.h"
#include "runtime/executable.h"

#include <array>
#include <deque>

namespace diji {

/// A launch with its sizes known.
struct ReadyLaunch {
  std::vector<std::int64_t> sizes;
  std::int64_t grid = 0;
  std::uint64_t local_bytes = 0;
  std::uint64_t flops = 0, bytes = 0;
};

/// A segment with its sizes known.
struct SegmentFrame {
  bool planned = false;
  std::uint64_t version = 0;  ///< of the frame's bindings when planned
  Bindings planned_for;
  MemoryPlan arena, kept;
  /// Two, so that an iteration reads what the one before left while it writes its own.
  std::array<Buffer, 2> kept_memory;
  Buffer sizes_memory;
  std::vector<std::byte> sizes_bytes;  ///< what it is written with; outlives the copy
  std::vector<std::uint64_t> sizes_offsets;
  std::vector<ReadyLaunch> launches;  ///< by step
};

struct OperandView;
struct Frame;

/// What a function queues copies to or from must not end before they do, however the function is left.
class WaitsForStream {
 public:
  explicit WaitsForStream(Stream& stream) : stream_(stream) {}
  ~WaitsForStream();
  WaitsForStream(const WaitsForStream&) = delete;
  WaitsForStream& operator=(const WaitsForStream&) = delete;
  void done() { waits_ = false; }  ///< the caller has waited

 private:
  Stream& stream_;
  bool waits_ = true;
};

/// What a loop holds from iteration to iteration.
struct LoopFrame {
  /// Of carried values that the body passes on instead of computing them; two banks.
  std::array<std::vector<Buffer>, 2> copies;
  std::vector<Buffer> stacks;  ///< the stacked results
  Buffer numbers;              ///< a stretch of iteration numbers
  std::int64_t first_number = -1;
  std::vector<std::int64_t> number_values;  ///< what it is written with; outlives the copy
};

struct ControlFrame {
  std::vector<std::unique_ptr<Frame>> bodies;  ///< made when first run
  LoopFrame loop;
  std::vector<Buffer> results;  ///< of a custom operator
};

/// Kept from run to run, so that nothing is planned or allocated again while sizes stay the same. Memory of a
/// frame is valid until the frame runs again (with the other bank: once more).
struct Frame {
  Frame(const Executable& executable, std::size_t index);

  std::size_t index;  ///< of the program
  const Program& program;
  Bindings bindings;
  std::uint64_t version = 1;       ///< counts changes of `bindings`
  std::vector<diji_place> places;  ///< by storage
  std::vector<SegmentFrame> segments;
  std::vector<ControlFrame> controls;  ///< by segment
  std::size_t bank = 0;

  diji_place& place(ValueId id) { return places[program.storage(id)]; }
  void bind(Bindings fresh);
};

/// Runs frames on one stream.
class Runner {
 public:
  Runner(std::shared_ptr<const Executable> executable, MemoryPool& pool, Stream stream)
      : executable_(std::move(executable)), pool_(pool), stream_(std::move(stream)) {}
  Result<void> create_error_word();

  Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs, const RunOptions& options);
  const RunStats& stats() const { return stats_; }

 private:
  // frame.cpp
  Result<void> run_model(Frame& frame, std::span<const HostTensor> inputs, std::vector<HostTensor>& outputs);
  Result<void> run_frame(Frame& frame);
  Result<void> prepare(Frame& frame, std::size_t segment);
  Result<void> plan(Frame& frame, std::size_t segment);
  Result<void> write_sizes(Frame& frame, std::size_t segment);
  Result<void> place(Frame& frame, std::size_t segment);
  Result<void> run_step(Frame& frame, const Step& step, const ReadyLaunch& launch);
  Result<void> launch(Frame& frame, const Step& step, const ReadyLaunch& launch);
  Result<void> observe_step(Frame& frame, const Step& step, bool complete);
  Result<HostTensor> read(Frame& frame, ValueId value);
  /// At least `bytes`; what the buffer held is lost when it grows.
  Result<void> ensure(Buffer& buffer, std::uint64_t bytes);
  Result<Buffer> allocate(std::uint64_t bytes, std::uint64_t rather);
  void release(Buffer& buffer);
  Result<void> check_error_word(std::uint64_t word) const;

  // control_flow.cpp
  Result<void> run_control(Frame& frame, std::size_t segment);
  Result<void> run_observe(Frame& frame, const Control& control);
  Result<void> run_count(Frame& frame, const Control& control);
  Result<void> run_conditional(Frame& frame, const Control& control, ControlFrame& state);
  Result<void> run_loop(Frame& frame, const Control& control, ControlFrame& state);
  struct Loop;
  Result<void> start_loop(Loop& loop);
  Result<void> start_iteration(Loop& loop);
  Result<void> finish_iteration(Loop& loop);
  Result<void> keep_carried(Loop& loop);
  Result<void> stack(Loop& loop, std::size_t result);
  Result<void> finish_loop(Loop& loop);
  Result<diji_place> iteration_number(LoopFrame& state, std::int64_t iteration);
  Result<Frame*> body_frame(ControlFrame& state, const Control& control, std::size_t body);
  /// Integers or a bool, after everything before them has run without an error.
  Result<std::vector<std::int64_t>> read_integers(Frame& frame, ValueId value);
  /// The same for a value with one element; from the graph where that tells it.
  Result<std::int64_t> read_one(Frame& frame, ValueId value);
  // exchange.cpp
  Result<Bindings> bind_groups();
  Result<void> start_exchange(Frame& frame, const Step& step, const ReadyLaunch& ready);
  Result<void> join_exchange(const Step& step);
  void end_exchanges(const Error& why);
  // custom_call.cpp
  Result<std::byte*> mapped(diji_place place);
  Result<std::vector<OperandView>> custom_operands(Frame& frame, const Node& node,
                                                   std::vector<HostTensor>& copies);
  Result<void> run_custom(Frame& frame, const Control& control, ControlFrame& state);

  Result<void> read_bytes(std::span<std::byte> bytes, diji_place place);

  std::shared_ptr<const Executable> executable_;
  MemoryPool& pool_;
  Buffer arena_, error_word_;
  std::unique_ptr<Frame> model_;
  Stream stream_;               // after what its work uses, so that it is waited for first
  std::uint64_t no_error_ = 0;  // what the error word is cleared with; outlives the copy
  std::uint64_t held_bytes_ = 0;
  const RunOptions* options_ = nullptr;
  std::vector<diji_place> places_;  // of the launch at hand
  bool frames_done_ = false;        // this run has nothing left to exchange

  /// A group of ranks in this run, and its collectives that were not joined.
  struct Exchanges {
    DeviceGroup* group = nullptr;  ///< null: this rank alone
    struct Open {
      const Step* step;
      std::shared_ptr<DeviceWork> work;
    };
    std::deque<Open> open;
    int ranks() const { return group == nullptr ? 1 : group->communicator().world(); }
  };
  std::vector<Exchanges> exchanges_;  // by Executable::groups
  RunStats stats_;
};

}  // namespace diji
