// Where storages lie in one buffer, for one set of sizes.
#include "base/checked.h"
#include "runtime/program.h"

#include <algorithm>
#include <numeric>

namespace diji {

Result<MemoryPlan> plan_memory(std::span<const Storage> storages, std::span<const std::size_t> which,
                               const Bindings& bindings, std::uint64_t alignment) {
  MemoryPlan plan{.offsets = std::vector<std::uint64_t>(which.size(), 0)};
  std::vector<std::uint64_t> sizes(which.size(), 0);
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::int64_t bytes = TRY(storages[which[i]].bytes.evaluate(bindings));
    if (bytes < 0) return fail(ErrorCode::mismatch, "a size is negative: {} bytes", bytes);
    sizes[i] = (static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 1)) + alignment - 1) / alignment *
               alignment;
  }
  std::vector<std::size_t> order(which.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
  });
  std::vector<std::size_t> placed;
  for (const std::size_t i : order) {
    const Storage& storage = storages[which[i]];
    const auto lives_with = [&](std::size_t index) {
      const Storage& other = storages[which[index]];
      // Kept ones outlive the segment; sizes are written all at once before its first step.
      const bool at_once = storage.home == other.home &&
                           (storage.home == Storage::Home::kept || storage.home == Storage::Home::sizes);
      return at_once || (other.first_step <= storage.last_step && storage.first_step <= other.last_step);
    };
    std::vector<std::size_t> neighbours;
    std::ranges::copy_if(placed, std::back_inserter(neighbours), lives_with);
    std::ranges::sort(neighbours, {}, [&](std::size_t other) { return plan.offsets[other]; });
    std::uint64_t offset = 0;
    for (const std::size_t other : neighbours) {
      if (offset + sizes[i] <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + sizes[other]);
    }
    const auto end = checked_add(offset, sizes[i]);
    if (!end) return fail(ErrorCode::mismatch, "these sizes need more memory than 64 bits can count");
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, *end);
    placed.push_back(i);
  }
  return plan;
}

}  // namespace diji
