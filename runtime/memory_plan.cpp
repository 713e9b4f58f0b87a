// The arena: where each storage lies, for one set of sizes.
#include "base/checked.h"
#include "runtime/executable.h"

#include <algorithm>
#include <numeric>

namespace diji {

Result<MemoryPlan> plan_memory(const Executable& executable, const Bindings& bindings,
                               std::uint64_t alignment) {
  const auto& storages = executable.storages;
  MemoryPlan plan{.offsets = std::vector<std::uint64_t>(storages.size(), 0)};
  std::vector<std::uint64_t> sizes(storages.size(), 0);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < storages.size(); ++i) {
    if (storages[i].constant) continue;
    const auto bytes = static_cast<std::uint64_t>(TRY(storages[i].bytes.evaluate(bindings)));
    sizes[i] = (std::max<std::uint64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    order.push_back(i);
  }
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
  });
  std::vector<std::size_t> placed;
  for (const std::size_t i : order) {
    const auto lives_with = [&](std::size_t other) {
      return storages[other].first_step <= storages[i].last_step &&
             storages[i].first_step <= storages[other].last_step;
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
