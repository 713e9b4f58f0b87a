// Calls that are made later than they are named: handed over to a thread, or prepared to be run often.
#include "collective/communicator.h"

#include "collective/busy.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace diji::collective {

void end_the_process(const Error& failure) {
  fmt::print(stderr, "diji: {}; the process ends, as its error mode says\n", failure.message);
  std::fflush(nullptr);
  std::_Exit(exit_code(failure.code));
}

Result<std::shared_ptr<Work>> Communicator::hand_over(std::shared_ptr<Work> work) {
  if (!queue_) queue_ = std::make_unique<WorkQueue>([this](Work& next) { return perform(next); });
  queue_->add(work);
  return work;
}

Result<void> Communicator::perform(Work& work) {
  if (work.prepared_ != nullptr) return perform(*work.prepared_);
  if (work.calls_.size() == 1 && !is_point_to_point(work.calls_.front()->call().operation))
    return perform(work.calls_.front()->call());
  std::vector<Call> calls;
  for (const auto& owned : work.calls_) calls.push_back(owned->call());
  return exchange(calls);
}

Result<std::shared_ptr<Work>> Communicator::start(const Call& call) {
  if (is_point_to_point(call.operation)) return start_group(std::span(&call, 1));
  const Busy busy(busy_);
  TRY(may_call(name_of(call.operation), busy.mine()));
  TRY(check_call(call, rank(), world()));
  return hand_over(Work::of(std::span(&call, 1)));
}

Result<std::shared_ptr<Work>> Communicator::start_group(std::span<const Call> calls) {
  const Busy busy(busy_);
  TRY(may_call("group", busy.mine()));
  TRY(check_group(calls));
  return hand_over(Work::of(calls));
}

Result<std::unique_ptr<PreparedCall>> Communicator::prepare(const Call& call) {
  const Busy busy(busy_);
  TRY(may_call(name_of(call.operation), busy.mine()));
  if (is_point_to_point(call.operation))
    return fail(ErrorCode::usage, "{}: only collective operations can be prepared", name_of(call.operation));
  std::unique_ptr<PreparedCall> prepared(new PreparedCall(this, call));
  if (in_flight()) {  // the plans are with the thread: at the first run
    TRY(check_call(call, rank(), world()));
  } else {
    TRY(make_ready(prepared->ready_, prepared->owned_.call()));
  }
  return prepared;
}

Result<void> Communicator::may_run(const PreparedCall& prepared) const {
  const std::string_view name = name_of(prepared.owned_.call().operation);
  if (prepared.owner_ != this)
    return fail(ErrorCode::usage, "{}: it was prepared for another communicator", name);
  if (const auto last = prepared.in_flight_.lock(); last && !last->done())
    return fail(ErrorCode::usage, "{}: its last start is not over; wait for it", name);
  return {};
}

Result<void> Communicator::perform(PreparedCall& prepared) {
  if (failure_) return std::unexpected(*failure_);
  const Call& call = prepared.owned_.call();
  if (prepared.ready_.plan == nullptr || call.copies_input()) TRY(make_ready(prepared.ready_, call));
  return execute(prepared.ready_, call);
}

Result<void> Communicator::run(PreparedCall& prepared) {
  const Busy busy(busy_);
  TRY(may_call(name_of(prepared.owned_.call().operation), busy.mine()));
  TRY(may_run(prepared));
  if (!in_flight()) return perform(prepared);
  return TRY(hand_over(prepared))->wait();
}

Result<std::shared_ptr<Work>> Communicator::start(PreparedCall& prepared) {
  const Busy busy(busy_);
  TRY(may_call(name_of(prepared.owned_.call().operation), busy.mine()));
  TRY(may_run(prepared));
  return hand_over(prepared);
}

Result<std::shared_ptr<Work>> Communicator::hand_over(PreparedCall& prepared) {
  auto work = std::make_shared<Work>();
  work->prepared_ = &prepared;
  prepared.in_flight_ = work;
  return hand_over(std::move(work));
}

}  // namespace diji::collective
