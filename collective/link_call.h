// One rank calls another over a socket, and each proves that it is of the job.
#pragma once

#include "collective/handshake.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace diji::collective {

struct LinkCall {
  std::uint64_t id = 0;  ///< of what they meet for: both must name the same
  int from = 0;          ///< ranks
  int to = 0;
  int lane = 0;  ///< which of the connections between the two
};

/// The caller's part, once the other side has something to say. Nothing where that is no proof, or does not
/// come within two seconds or the deadline.
std::optional<Socket> take_up(const LinkCall& call, const std::string& token, Socket socket,
                              std::int64_t deadline_us);

/// Accepts a connection, if there is one, and hears who it is. Nothing where it is a stranger, or a call to
/// another rank or for something else than `id`.
std::optional<std::pair<LinkCall, Socket>> answer(int listener, std::uint64_t id, int to,
                                                  const std::string& token, std::int64_t deadline_us);

}  // namespace diji::collective
