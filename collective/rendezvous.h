// How ranks that know nothing but an address and a token find each other: everybody's words to everybody,
// once.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace diji::collective {

struct RendezvousOptions {
  int rank = 0;
  int world = 1;
  std::string address =
      "127.0.0.1:0";  ///< HOST:PORT at which rank 0 listens and all others call; [IPv6]:PORT
  std::string token;  ///< the job's secret; without one only loopback addresses are allowed
  std::int64_t timeout_us = 120'000'000;
  std::int64_t deadline_us = 0;  ///< where the time began before; 0: timeout_us from now
};

/// What all ranks know afterwards: the same on each.
struct Introduction {
  std::uint64_t id = 0;            ///< random, of this job
  std::vector<std::string> words;  ///< by rank
};

/// Rank 0 listens, the others call, again while nobody answers. Each proves that it knows the token (HMAC
/// over the other side's random number, both ways) before a length it sends is believed; strangers and slow
/// talkers are dropped and do not disturb. Errors: deadline, on every rank, naming the ranks that never
/// arrived; no_device, where versions differ, naming both; usage, where two ranks have one number, or worlds
/// differ, or an address is not loopback and there is no token.
Result<Introduction> introduce(const RendezvousOptions& options, const std::string& words);

}  // namespace diji::collective
