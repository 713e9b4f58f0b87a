// Collectives in a run: each begins on its group's stream and is joined before what reads it.
#include "runtime/frame.h"

#include "graph/primitives.h"

#include <array>

namespace diji {
namespace {

using collective::Operation;

Operation operation_of(Primitive primitive) {
  switch (primitive) {
    case Primitive::all_gather: return Operation::all_gather;
    case Primitive::reduce_scatter: return Operation::reduce_scatter;
    case Primitive::all_to_all: return Operation::all_to_all;
    case Primitive::collective_broadcast: return Operation::broadcast;
    default: return Operation::all_reduce;
  }
}

collective::Reduction reduction_of(const Node& node) {
  constexpr std::array kReductions = {collective::Reduction::sum, collective::Reduction::product,
                                      collective::Reduction::min, collective::Reduction::max};
  const auto kind = parse_reduction(node.attributes.get_or("kind", std::string{}));
  return kReductions[static_cast<std::size_t>(kind.value_or(Reduction::sum))];
}

}  // namespace

/// The sizes that communicators tell. Errors: usage, where a group has another number of ranks than the model
/// says.
Result<Bindings> Runner::bind_groups() {
  Bindings known;
  exchanges_.resize(executable_->groups.size());
  for (std::size_t i = 0; i < exchanges_.size(); ++i) {
    const RankGroup& group = executable_->groups[i];
    const auto given = options_->groups.find(group.name);
    exchanges_[i] = {.group = given == options_->groups.end() ? nullptr : given->second};
    const std::int64_t ranks = exchanges_[i].ranks();
    if (exchanges_[i].group != nullptr && &exchanges_[i].group->device() != executable_->device) {
      return fail(ErrorCode::usage, "the ranks given for group '{}' are on {}, the model on {}", group.name,
                  exchanges_[i].group->device().name(), executable_->device->name());
    }
    if (const auto symbol = group.ranks.symbol_name()) {
      known[std::string(*symbol)] = ranks;
    } else if (!group.ranks.is(ranks)) {
      return fail(
          ErrorCode::usage, "the model's group '{}' is of {} ranks: {}", group.name, group.ranks.text(),
          exchanges_[i].group == nullptr ? std::string("this run was given none for it (RunOptions::groups)")
                                         : fmt::format("the one given for it has {}", ranks));
    }
  }
  return known;
}

Result<void> Runner::start_exchange(Frame& frame, const Step& step, const ReadyLaunch& ready) {
  const diji_place from = frame.places[step.storages[0]], to = frame.places[step.storages[1]];
  Exchanges& group = exchanges_[step.group];
  if (group.ranks() == 1) {
    const auto bytes = static_cast<std::uint64_t>(ready.sizes[1]);
    return bytes == 0 ? Result<void>{} : stream_.copy_on_device(to, from, bytes);
  }
  const Graph& graph = *frame.program.graph;
  const Node& node = graph.node(graph.value(step.value).producer);
  const DeviceCall call{
      .operation = operation_of(*primitive_of(node.op)),
      .input = from,
      .output = to,
      .count = ready.sizes[0],
      .type = collective::element_type(graph.type(step.value).dtype),
      .reduction = reduction_of(node),
      .root = static_cast<int>(node.attributes.get_or<std::int64_t>("root", 0)),
  };
  auto work = group.group->start(call, stream_);
  if (!work) return in_context(step.operators, std::move(work).error());
  group.open.push_back({&step, std::move(*work)});
  const bool alone = !options_->overlap || options_->timed || options_->observer;
  return alone ? join_exchange(step) : Result<void>{};
}

Result<void> Runner::join_exchange(const Step& step) {
  Exchanges& group = exchanges_[step.group];
  while (!group.open.empty()) {
    const auto [begun, work] = std::move(group.open.front());
    group.open.pop_front();
    auto joined = group.group->join(*work, stream_);
    if (!joined) return in_context(begun->operators, std::move(joined).error());
    if (begun->value == step.value) break;
  }
  return {};
}

/// After a failure: the other ranks do not wait for what will not come, and nothing is in flight any more.
void Runner::end_exchanges(const Error& why) {
  if (frames_done_) return;  // and everything was joined
  for (Exchanges& group : exchanges_) {
    if (group.group == nullptr) continue;
    group.group->abort(
        fmt::format("rank {}'s run failed: {}", group.group->communicator().rank(), why.message));
    group.open.clear();
  }
}

}  // namespace diji
