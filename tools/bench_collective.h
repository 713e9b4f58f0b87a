// `diji bench collective`: how long an operation of all ranks takes, and whether it is right.
#pragma once

#include "base/error.h"
#include "collective/communicator.h"
#include "tools/arguments.h"

#include <array>
#include <string>
#include <vector>

namespace diji::tools {

/// Of `bench collective` only.
inline constexpr std::array kCollectiveOptions = {
    OptionDef{"--bytes", "N", "of collective: one size of the whole vector"},
    OptionDef{"--sizes", "FROM:TO", "of collective: sizes that double (default: 8:64M)"},
    OptionDef{"--redop", "R",
              "of collective: sum, avg, prod, min, max, premul-sum, band, bor, bxor, land, lor, lxor"},
    OptionDef{"--root", "RANK", "of collective: of broadcast, reduce, gather, scatter (default: 0)"},
    OptionDef{"--in-place", "", "of collective: input and output are one buffer"},
    OptionDef{"--registered", "", "of collective: buffers that peers of the host read in place"},
    OptionDef{"--algorithm", "PLAN",
              "of collective: this plan, not the one that is chosen: an algorithm, or ALGORITHM/slices=N"},
    OptionDef{"--exact", "", "of collective: the left fold in rank order"},
    OptionDef{"--check", "",
              "of collective: compare every output with the reference; exit code 1 where one differs"},
    OptionDef{"--warmup", "N", "of collective: calls before the timed ones (default: 5)"},
    OptionDef{"--iters", "N", "of collective: timed iterations"},
    OptionDef{"--seconds", "S", "of collective: time for one size (default: 0.25)"},
    OptionDef{"--simulate", "world=N",
              "of collective: run nothing, but price every algorithm for N ranks by the cost model"},
    OptionDef{"--topology", "FILE", "of --simulate: JSON, what messages within and between hosts cost"},
};

/// "8:64M": sizes from the first to the second, each `factor` times the one before. Errors: usage, of
/// --sizes.
Result<std::vector<std::int64_t>> sizes_between(const std::string& text, int factor);
/// The call with a count for about `bytes` in the whole vector.
collective::Call sized(collective::Call call, std::int64_t bytes, int world);
/// The largest of all ranks' times. Errors: the communicator's.
Result<double> slowest(collective::Communicator& communicator, double seconds);

/// `operands` are those after "collective". Rank 0 prints.
Result<int> bench_collective(const Arguments& arguments, std::span<const std::string> operands, bool json);

}  // namespace diji::tools
