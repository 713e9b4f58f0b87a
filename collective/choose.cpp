// The thresholds, each with the measurement or the reason that it comes from.
#include "collective/choose.h"

#include <algorithm>

namespace diji::collective {
namespace {

// A slice of a block should fill the channel's slots and stay in the second cache until it is read again.
constexpr std::int64_t kSliceBytes = 256 << 10;
constexpr int kSlicesMax = 64;

std::string_view preferred(const Call& call, int world, std::int64_t bytes) {
  constexpr std::int64_t kTiny = 4 << 10;  // everybody sends everything: one round, (world - 1) lines
  switch (call.operation) {
    case Operation::barrier: return "dissemination";
    case Operation::all_reduce: return !call.exact && bytes <= kTiny && world <= 16 ? "exchange" : "direct";
    default: return "direct";
  }
}

}  // namespace

int slices_for(std::int64_t bytes, int world) {
  const std::int64_t block = bytes / std::max(world, 1);
  return static_cast<int>(std::clamp<std::int64_t>(block / kSliceBytes, 1, kSlicesMax));
}

Result<PlanChoice> choose(const Call& call, int world, [[maybe_unused]] int hosts) {
  const std::int64_t bytes = vector_count(call, world) * bytes_of(call.type);
  const std::string_view name = call.algorithm.empty() ? preferred(call, world, bytes) : call.algorithm;
  PlanChoice choice;
  choice.algorithm = TRY(find_algorithm(call.operation, name));
  if (call.exact && name != "direct") {
    return fail(ErrorCode::usage, "{}: exact results need the algorithm direct, not {}",
                name_of(call.operation), name);
  }
  choice.slices = slices_for(bytes, world);
  const PlanRequest request{
      .operation = call.operation, .world = world, .root = call.root, .slices = choice.slices};
  if (!choice.algorithm->supports(request)) {
    return fail(ErrorCode::usage, "{}: {} does not support a world of {}", name_of(call.operation), name,
                world);
  }
  if (choice.algorithm->equal_counts && !call.counts.empty()) {
    return fail(ErrorCode::usage, "{}: {} needs blocks of one length", name_of(call.operation), name);
  }
  return choice;
}

}  // namespace diji::collective
