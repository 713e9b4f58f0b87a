// Start-up between hosts: every rank listens, then each pair has a socket whose ends both know the token.
#pragma once

#include "collective/handshake.h"

#include "base/error.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace diji::collective {

/// Where ranks of other hosts call this one.
struct LinkListener {
  Socket socket{-1};
  std::string address;
};
/// On the interface that leads to `rendezvous`, or the one named `interface`. Errors: usage, also where other
/// hosts can reach it and there is no token; io.
Result<LinkListener> listen_for_links(const std::string& rendezvous, const std::string& interface,
                                      bool has_token);

struct LinkOptions {
  int rank = 0;
  std::uint64_t id = 0;  ///< of the job
  std::string token;
  std::int64_t deadline_us = 0;
};
struct HostLinks {
  std::vector<int> sockets;      ///< by rank; -1: it has no address, or is not linked
  std::optional<Error> failure;  ///< deadline, naming the ranks that have an address and no link
};
/// A connected socket to each rank with an address: the lower rank of a pair calls. A stranger who calls is
/// dropped. One rank that does not answer holds up no link between others.
HostLinks connect_links(const LinkOptions& options, const LinkListener& listener,
                        std::span<const std::string> addresses);

}  // namespace diji::collective
