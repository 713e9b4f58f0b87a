// What PMI and PMIx have in common: ranks that have not met leave lines for each other at their launcher.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace diji::collective {

/// An open session with the launcher, which must be told of its end: a rank that goes without counts as lost.
struct KeyValues {
  int rank = 0;
  int world = 1;
  std::function<Result<void>(const std::string& line)> leave;  ///< rank 0, once
  std::function<Result<std::string>()> find;  ///< the others, once: the line that rank 0 left
  std::shared_ptr<void> session;              ///< its end is the session's
};

/// The longest line that every launcher carries: PMI's values are at most 1024 bytes, and without blanks.
inline constexpr std::size_t kLineMax = 512;

/// The job that this process is in, by PMIx: Slurm's `srun --mpi=pmix`, Open MPI, PRRTE. libpmix.so.2 is
/// loaded for it. A server that is not there makes a job of one, with a warning. Errors: no_device (no
/// library); deadline; io, with PMIx's own word.
Result<KeyValues> key_values_of_pmix(std::int64_t deadline_us);

/// By PMI-1 over the socket `descriptor`, whose other end is MPICH's mpirun or `srun --mpi=pmi2`. Errors:
/// usage (no socket); deadline; io (the launcher hung up); corrupted (what it says is no PMI-1).
Result<KeyValues> key_values_of_pmi(int descriptor, int rank, int world, std::int64_t deadline_us);

}  // namespace diji::collective
