// A round robin over executions of one step each.
#include "collective/point_to_point.h"

#include <algorithm>

namespace diji::collective {

Plan point_to_point_plan(Operation operation, int world, int rank, int peer) {
  Plan plan;
  plan.request = {.operation = operation, .world = world};
  plan.algorithm = "direct";
  plan.rank = rank;
  const bool sends = operation == Operation::send;
  plan.steps.push_back({.action = sends ? Action::send : Action::receive,
                        .peer = peer,
                        .source = sends ? Place::input : Place::output,
                        .target = sends ? Place::input : Place::output,
                        .payload = Place::input});
  return plan;
}

Result<void> PointToPoint::start(std::span<const Call> calls, std::span<const CallTag> tags, int rank,
                                 std::span<Transport* const> links, std::int64_t fragment_bytes) {
  parts_.clear();
  offender_ = -1;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    auto part = std::make_unique<Part>();
    part->operation = call.operation;
    part->peer = call.peer;
    part->plan = std::make_unique<PreparedPlan>(
        point_to_point_plan(call.operation, static_cast<int>(links.size()), rank, call.peer));
    const Regions regions = TRY(part->memory.lay_out(call, *part->plan));
    part->execution.start(*part->plan, regions, {}, tags[i], links, fragment_bytes);
    parts_.push_back(std::move(part));
  }
  return {};
}

Result<bool> PointToPoint::advance() {
  bool moved = false;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = *parts_[i];
    if (part.execution.done()) continue;
    const bool behind =
        std::any_of(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(i), [&](const auto& other) {
          return other->operation == part.operation && other->peer == part.peer && !other->execution.done();
        });
    if (behind) continue;
    const Result<bool> one = part.execution.advance();
    if (!one) {
      offender_ = part.execution.offender();
      offending_tag_ = part.execution.offending_tag();
      return one;
    }
    moved |= *one;
  }
  return moved;
}

bool PointToPoint::done() const {
  return std::ranges::all_of(parts_, [](const auto& part) { return part->execution.done(); });
}

int PointToPoint::waits_for() const {
  for (const auto& part : parts_) {
    if (!part->execution.done()) return part->execution.waits_for();
  }
  return -1;
}

}  // namespace diji::collective
