// Start-up between hosts: every rank listens, then each pair has sockets whose ends both know the token.
#pragma once

#include "collective/handshake.h"

#include "base/error.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji::collective {

/// Where ranks of other hosts call this one.
struct LinkListener {
  Socket socket{-1};
  std::string address;
};
/// On the interface that leads to `rendezvous`, or on each of those named `interfaces` ("eth0,eth1"), in that
/// order. Errors: usage, also where other hosts can reach one and there is no token; io.
Result<std::vector<LinkListener>> listen_for_links(const std::string& rendezvous, std::string_view interfaces,
                                                   bool has_token);

/// What sockets between ranks are made with: of the job, and of all groups that come of it.
struct Wires {
  std::string launcher = "alone";  ///< who started the ranks
  std::vector<LinkListener> listeners;
  std::string token;
  bool payload_crc = true;
  bool only_tcp = false;  ///< no rank uses shared memory for messages
};

struct LinkOptions {
  int rank = 0;
  std::uint64_t id = 0;  ///< of the communicator
  std::string token;
  std::int64_t deadline_us = 0;
};
/// Addresses of a rank, one for each of its interfaces; none: it is not to be linked.
using Addresses = std::vector<std::string>;
struct HostLinks {
  std::vector<std::vector<int>> sockets;  ///< by rank, in the order of the interfaces
  std::optional<Error> failure;           ///< deadline, naming the ranks that have addresses and no link
};
/// Connected sockets to each rank with addresses: the lower rank of a pair calls. There are as many as the
/// one of the pair with fewer interfaces has, this rank those of `own_lanes`. A stranger who calls is
/// dropped. One rank that does not answer holds up no link between others.
HostLinks connect_links(const LinkOptions& options, std::span<const LinkListener> listeners, int own_lanes,
                        std::span<const Addresses> addresses);

}  // namespace diji::collective
