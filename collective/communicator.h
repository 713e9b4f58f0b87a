// A group of ranks that do collectives together. What users hold; everything else here serves it.
#pragma once

#include "base/error.h"
#include "collective/call.h"
#include "collective/choose.h"
#include "collective/clock.h"
#include "collective/descriptor_server.h"
#include "collective/host_segment.h"
#include "collective/liveness.h"
#include "collective/point_to_point.h"
#include "collective/registered.h"
#include "collective/transport.h"
#include "collective/work.h"

#include <poll.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace diji::collective {

/// One rank as the others know it.
struct Member {
  std::string host;
  int pid = -1;
  std::string server;                  ///< address of its DescriptorServer
  int local = -1;                      ///< place in the segment, -1: on another host
  std::string machine;                 ///< equal for the ranks of a host
  std::vector<std::string> addresses;  ///< where ranks call that it has sockets with, one an interface
};

struct Wires;  // host_links.h

/// What start-up found: who there is, and the links to them. Made by bootstrap, or by a test with ranks as
/// threads.
struct Group {
  std::uint64_t id = 0;     ///< of the communicator, agreed on by all
  std::uint32_t epoch = 0;  ///< grows with every shrink
  int rank = 0;
  std::vector<Member> members;                    ///< by rank
  std::shared_ptr<HostSegment> segment;           ///< of the ranks of this host
  std::vector<std::shared_ptr<Transport>> links;  ///< by rank; null for this one
  /// Into which messages are cut, equal on all ranks; 0: the least of this rank's links, where all have the
  /// same.
  std::int64_t fragment_bytes = 0;
  std::shared_ptr<const Tuning> tuning;              ///< of rank 0; null: as CommunicatorOptions say
  std::shared_ptr<Watcher> watcher;                  ///< null: somebody else says who died
  std::shared_ptr<DescriptorServer> server;          ///< of this process; null with ranks as threads
  std::shared_ptr<RegisteredMemory> memory;          ///< of this rank; null: nobody can allocate
  PrivateReads private_reads = PrivateReads::never;  ///< of and by this rank
  std::shared_ptr<const Wires> wires;                ///< null: all ranks are on one host
  std::shared_ptr<void> keep;                        ///< ends the offer of the segment before it goes
  int world() const { return static_cast<int>(members.size()); }
  int hosts() const;
};

/// Makes the segment of `group` and offers it at the group's server (`leads`), or fetches it from `leader`'s.
Result<void> share_segment(Group& group, bool leads, const std::string& leader, std::int64_t deadline_us);

/// How the ranks of `group` read each other's memory.
RegionAccess regions_of(const Group& group);

/// Fills in the links of `group`, which has its segment: shared memory between ranks of a host, sockets to
/// all others. Errors: deadline, naming who has no link; out_of_memory.
Result<void> link_ranks(Group& group, std::int64_t deadline_us);

struct CommunicatorOptions {
  std::int64_t timeout_us = 120'000'000;  ///< of every call that names none
  std::optional<Patience> patience;       ///< default: as the ranks and cores of this host allow
  /// A rank that waits so long says so once, naming whom it waits for.
  std::int64_t warning_us = 5'000'000;
  std::function<void(const std::string&)> warn;  ///< default: the log
  /// Called once, with the error that ended the communicator, by the thread whose call met it, before that
  /// call returns it. It must not call the communicator, except for abort().
  std::function<void(const Error&)> on_failure;
  std::shared_ptr<Reducer> reducer;  ///< null: elements are combined by this processor
  Clock clock;
  /// Which plans calls take, equal on all ranks; null: the built-in ones. Parts of a communicator have its.
  std::shared_ptr<const Tuning> tuning;
};

/// For on_failure: says it on standard error and ends the process with the error's exit code, as
/// MPI_ERRORS_ARE_FATAL does; a launcher then ends the job.
void end_the_process(const Error& failure);

/// Every rank makes the same calls in the same order; each call returns when this rank's part is done and its
/// buffers are its own again. The result is complete, or an error was returned on this rank (others may have
/// succeeded). No call waits past its deadline. After an error that is not of usage the communicator is only
/// good for abort, shrink and destruction; every rank of it gets an error that names the same first failure.
///
/// Calls may be handed over (start): they are done in order, together with those made here, on a thread of
/// the communicator. Destruction waits for them; abort() first ends them soon.
///
/// Threads: one call at a time; a second one from another thread is an error (usage). abort() may come from
/// any thread.
class Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> create(Group group, CommunicatorOptions options = {});
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return group_.rank; }
  int world() const { return group_.world(); }
  const Group& group() const { return group_; }
  const CommunicatorOptions& options() const { return options_; }

  /// Errors: usage (nothing was sent, the communicator stays good), deadline, peer_lost, call_mismatch,
  /// corrupted, aborted, out_of_memory; io, where a peer's private memory cannot be read any more.
  Result<void> run(const Call& call);
  /// Sends and receives that progress together: a rank may send to and receive from the same peer. Errors as
  /// of run.
  Result<void> run_group(std::span<const Call> calls);
  /// Hands the call over and returns at once. Its time-out counts from when its turn comes. Errors: usage, of
  /// the call; those of the exchange come with Work::wait.
  Result<std::shared_ptr<Work>> start(const Call& call);
  Result<std::shared_ptr<Work>> start_group(std::span<const Call> calls);

  /// A persistent call, of a collective operation. Tells the other ranks nothing. Errors: usage.
  Result<std::unique_ptr<PreparedCall>> prepare(const Call& call);
  Result<void> run(PreparedCall& prepared);
  /// Errors: usage, too, where its last start is not over. It must live until it is.
  Result<std::shared_ptr<Work>> start(PreparedCall& prepared);
  /// Memory that ranks of this host read in place wherever it is given to a call: no copy, no flag. Not a
  /// collective: each rank allocates what it likes, when it likes. Errors of RegisteredMemory::allocate;
  /// unsupported, where the group has none.
  Result<Allocation> allocate(std::int64_t bytes);
  /// Ends whatever any rank does here with `aborted`; returns at once.
  void abort(const std::string& why);
  /// Collective calls that were made; not to be asked while some are in flight.
  std::uint32_t calls() const { return sequence_; }
  /// "shm", "tcp", "shm+tcp"
  std::string transports() const;
  /// Whether a rank of this host has found that it may read this one's private memory in place.
  bool private_memory_is_read() const;
  const WorldShape& shape() const { return shape_; }
  /// The plan that such a call takes here: all of it is decided by what is equal on all ranks. Errors: of
  /// choose.
  Result<PlanChoice> plan_of(const Call& call) const { return choose(call, shape_, options_.tuning.get()); }

 private:
  using PlanKey = std::tuple<const Algorithm*, int, int>;  ///< algorithm, slices, root

  Communicator(Group group, CommunicatorOptions options);
  Result<void> start();
  const PreparedPlan& plan_for(const Call& call, const PlanChoice& choice);
  Result<void> make_ready(ReadyCall& ready, const Call& call);
  bool lends(Operation operation, std::int64_t bytes) const;
  Result<void> may_call(std::string_view name, bool alone) const;
  Result<void> check_group(std::span<const Call> calls) const;
  bool in_flight() const { return queue_ && !queue_->idle(); }
  Result<void> may_run(const PreparedCall& prepared) const;
  Result<std::shared_ptr<Work>> hand_over(std::shared_ptr<Work> work);
  Result<std::shared_ptr<Work>> hand_over(PreparedCall& prepared);
  Result<void> perform(Work& work);
  Result<void> perform(const Call& call);
  Result<void> perform(PreparedCall& prepared);
  Result<void> exchange(std::span<const Call> calls);
  Result<void> execute(const ReadyCall& ready, const Call& call);
  Result<void> finish(Progress& execution, const Call& call);
  Result<void> wait(Progress& execution, const Call& call);
  Result<void> look_around(Progress& execution, const Call& call, std::int64_t waited_us);
  std::unexpected<Error> failed(Error error, const Call& call);
  Error first_failure(const Error& error);
  void tell_failure();
  Result<void> pump();
  void sleep(Doorbell& bell, std::uint32_t announced, std::int64_t longest_us, int peer);
  /// A rank whose call of that number is not this one's.
  struct Disagreement {
    int peer = -1;
    std::uint32_t number = 0;
  };
  Error mismatch(const Disagreement& disagreement, const Call& call);
  Error late(const Progress& execution, const Call& call, std::int64_t waited_us) const;
  int cause(int peer) const;
  int settled_cause(int peer) const;
  bool is_silent(int rank) const;
  bool is_here(int rank) const { return group_.members[static_cast<std::size_t>(rank)].local >= 0; }
  std::optional<CallRecord> call_of(int peer, std::uint32_t number) const;
  std::optional<CallRecord> latest_call_of(int peer) const;
  std::optional<Disagreement> disagreement() const;
  void compare(const Disagreement& disagreement);
  void publish(const CallRecord& record);
  void publish_slow_call(std::int64_t waited_us);
  void publish_end();
  std::string who(int rank) const;
  Board& board(int rank) const {
    return group_.segment->board(group_.members[static_cast<std::size_t>(rank)].local);
  }
  Board& own_board() const { return board(group_.rank); }

  Group group_;
  CommunicatorOptions options_;
  Patience patience_;
  WorldShape shape_;
  std::int64_t fragment_bytes_ = 0;
  std::vector<Transport*> links_;
  std::vector<Transport*> transports_;  ///< each of the links once
  bool polls_ = false;                  ///< a peer is behind a descriptor, not a doorbell
  bool has_neighbours_ = false;         ///< a peer is behind a doorbell
  int cores_ = 1;                       ///< that the ranks of this host share
  std::vector<pollfd> descriptors_;
  std::map<PlanKey, std::unique_ptr<PreparedPlan>> plans_;
  Execution execution_;
  PointToPoint point_to_point_;
  std::map<std::pair<Operation, int>, std::uint32_t> pair_calls_;  ///< by direction and peer
  ReadyCall ready_;                                                ///< of the last call
  std::uint32_t sequence_ = 0;
  std::optional<Error> failure_;
  std::atomic<bool> busy_ = false;
  std::uint32_t forks_ = 0;
  bool warned_ = false;
  bool published_ = false;         ///< peers of other hosts were told of the call,
  std::int64_t published_us_ = 0;  ///< when it had waited so long
  int published_waits_for_ = -1;   ///< for this rank
  std::int64_t began_us_ =
      0;  ///< of the call, once it has waited: reading the clock costs as much as a short call
  std::int64_t deadline_us_ = 0;
  std::shared_ptr<void> heartbeat_;
  std::unique_ptr<WorkQueue> queue_;  ///< null until a call is handed over
};

}  // namespace diji::collective
