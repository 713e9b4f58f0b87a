// The built-in choice: thresholds that were measured on few ranks, the cost model beyond.
#include "collective/choose.h"

#include <algorithm>
#include <initializer_list>

namespace diji::collective {
namespace {

// A slice of a block should fill the channel's slots and stay in the second cache until it is read again.
constexpr std::int64_t kSliceBytes = 256 << 10;
constexpr int kCacheSlicesMax = 64;
// A smaller message is mostly what a message costs anyway.
constexpr std::int64_t kPipelinedBytesMin = 64 << 10;

int cache_slices(std::int64_t bytes, int world) {
  const std::int64_t block = bytes / std::max(world, 1);
  return static_cast<int>(std::clamp<std::int64_t>(block / kSliceBytes, 1, kCacheSlicesMax));
}

bool supports(const Algorithm& algorithm, const Call& call, const WorldShape& shape) {
  if (algorithm.equal_counts && !call.counts.empty()) return false;
  return algorithm.supports(request_of(call, shape, {&algorithm, 1}));
}

// Up to so many ranks of one host everything was measured: messages to several peers overlap in shared memory
// more than a port of the cost model lets them.
constexpr int kMeasuredRanks = 16;
std::string_view measured_choice(Operation operation, std::int64_t bytes) {
  constexpr std::int64_t kTiny = 4 << 10;  // everybody sends everything: one round, (world - 1) lines
  switch (operation) {
    case Operation::barrier: return "dissemination";
    case Operation::all_reduce: return bytes <= kTiny ? "exchange" : "direct";
    default: return "direct";
  }
}

// Ties go to the row that stands first, the one for smaller messages.
PlanChoice cheapest(const Call& call, const WorldShape& shape, std::int64_t bytes) {
  const CostModel model;
  PlanChoice best;
  double best_us = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.operation != call.operation || !supports(algorithm, call, shape)) continue;
    const PlanChoice choice{&algorithm, slices_for(algorithm, shape, bytes, model)};
    const double us =
        cost_us(algorithm, request_of(call, shape, choice), shape.hosts, static_cast<double>(bytes), model);
    if (best.algorithm != nullptr && us >= best_us) continue;
    best = choice;
    best_us = us;
  }
  return best;
}

Result<PlanChoice> named(const Call& call, const WorldShape& shape, std::int64_t bytes,
                         std::string_view text) {
  const PlanWords words = TRY(parse_plan(call.operation, text));
  PlanChoice choice;
  choice.algorithm = TRY(find_algorithm(call.operation, words.algorithm));
  const std::string_view name = choice.algorithm->name;
  if (call.exact && name != "direct") {
    return fail(ErrorCode::usage, "{}: exact results need the algorithm direct, not {}",
                name_of(call.operation), name);
  }
  choice.slices = words.slices > 0 ? words.slices : slices_for(*choice.algorithm, shape, bytes);
  if (!choice.algorithm->supports(request_of(call, shape, choice))) {
    return fail(
        ErrorCode::usage, "{}: {} does not support {} ranks on {} hosts{}", name_of(call.operation), name,
        shape.ranks, shape.hosts,
        choice.algorithm->knows_hosts
            ? "; it needs several hosts, on each of them equally many ranks, at least two, with ranks "
              "that follow each other"
            : "");
  }
  if (choice.algorithm->equal_counts && !call.counts.empty()) {
    return fail(ErrorCode::usage, "{}: {} needs blocks of one length", name_of(call.operation), name);
  }
  return choice;
}

std::uint32_t mixed(std::uint32_t hash, int value) {  // FNV-1a over the bytes of the value
  constexpr std::uint32_t kPrime = 16777619;
  for (int shift = 0; shift < 32; shift += 8)
    hash = (hash ^ ((static_cast<std::uint32_t>(value) >> shift) & 0xff)) * kPrime;
  return hash;
}

}  // namespace

int slices_for(const Algorithm& algorithm, const WorldShape& shape, std::int64_t bytes,
               const CostModel& model) {
  const int least = cache_slices(bytes, shape.ranks);
  int best = least;
  double best_us = 0;
  for (int slices = 1; slices <= kCacheSlicesMax; slices *= 4) {
    if (slices > 1 && bytes / slices < kPipelinedBytesMin) break;
    const PlanRequest request{.operation = algorithm.operation,
                              .world = shape.ranks,
                              .slices = slices,
                              .node_ranks = shape.node_ranks};
    if (!algorithm.supports(request)) return least;
    const double us = cost_us(algorithm, request, shape.hosts, static_cast<double>(bytes), model);
    if (slices > 1 && us >= best_us) continue;
    best = std::max(slices, least);
    best_us = us;
  }
  return best;
}

PlanRequest request_of(const Call& call, const WorldShape& shape, const PlanChoice& choice) {
  return {.operation = call.operation,
          .world = shape.ranks,
          .root = has_root(call.operation) ? call.root : 0,
          .slices = choice.slices,
          .node_ranks = shape.node_ranks};
}

Result<PlanChoice> choose(const Call& call, const WorldShape& shape, const Tuning* tuning) {
  const std::int64_t bytes = vector_count(call, shape.ranks) * bytes_of(call.type);
  if (!call.algorithm.empty() && call.algorithm != "auto") return named(call, shape, bytes, call.algorithm);
  if (call.exact && call.operation != Operation::barrier) return named(call, shape, bytes, "direct");
  if (tuning != nullptr) {
    for (const TuningRow& row : tuning->rows) {
      if (!row.covers(call.operation, call.type, shape, bytes)) continue;
      if (row.plan.algorithm == "auto") break;
      const Algorithm* algorithm = TRY(find_algorithm(call.operation, row.plan.algorithm));
      if (!supports(*algorithm, call, shape)) continue;
      return PlanChoice{algorithm,
                        row.plan.slices > 0 ? row.plan.slices : slices_for(*algorithm, shape, bytes)};
    }
  }
  if (shape.hosts > 1 || shape.ranks > kMeasuredRanks) return cheapest(call, shape, bytes);
  PlanChoice choice;
  choice.algorithm = TRY(find_algorithm(call.operation, measured_choice(call.operation, bytes)));
  choice.slices = cache_slices(bytes, shape.ranks);
  return choice;
}

std::string plan_id(const Call& call, const WorldShape& shape, const PlanChoice& choice) {
  PlanRequest request = request_of(call, shape, choice);
  request.root = 0;
  const Plan plan = choice.algorithm->plan(request, 0);
  std::uint32_t hash = 2166136261;
  for (const int word : {static_cast<int>(call.operation), request.world, request.slices, request.node_ranks,
                         plan.blocks, plan.partial_copies, static_cast<int>(call.type),
                         static_cast<int>(accumulator_of(call.type, call.exact))})
    hash = mixed(hash, word);
  for (const Step& step : plan.steps) {
    for (const int word : {static_cast<int>(step.action), step.round, step.peer, step.peers, step.stride,
                           static_cast<int>(step.source), static_cast<int>(step.target), step.source_chunk,
                           step.target_chunk, static_cast<int>(step.payload), step.incoming_first ? 1 : 0})
      hash = mixed(hash, word);
  }
  return fmt::format("{}/{}-{:08x}", choice.algorithm->name, choice.slices, hash);
}

}  // namespace diji::collective
