// Whether a collective is right, for `bench collective --check`.
#pragma once

#include "collective/communicator.h"

#include <cstddef>
#include <cstdint>

namespace diji::tools {

/// Fills `input`, makes the call, and counts over all ranks the elements of `output` that are not what the
/// operation says, looking at a million of each rank's at most. All ranks call it. No 8-bit floats, averages
/// or premul_sum. Errors: the communicator's.
Result<std::int64_t> count_wrong(collective::Communicator& communicator, collective::Call call,
                                 std::byte* input, std::byte* output);

}  // namespace diji::tools
