// Every pair of ranks at once, whatever the order in which they come.
#include "collective/host_links.h"

#include "collective/clock.h"
#include "collective/link_call.h"
#include "collective/socket_address.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace diji::collective {
namespace {

// A connection that is to be.
struct Lane {
  int rank = 0;
  int number = 0;
  const std::string* address = nullptr;
  Socket link{-1};
  Socket call{-1};  ///< under way
  bool is_linked() const { return link.descriptor() >= 0; }
};

std::vector<Lane> lanes_to(std::span<const Addresses> addresses, int own_lanes) {
  std::vector<Lane> lanes;
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    const auto count = std::min<std::size_t>(addresses[rank].size(), static_cast<std::size_t>(own_lanes));
    for (std::size_t i = 0; i < count; ++i) {
      Lane& lane = lanes.emplace_back();
      lane.rank = static_cast<int>(rank);
      lane.number = static_cast<int>(i);
      lane.address = &addresses[rank][i];
    }
  }
  return lanes;
}

std::vector<Lane*> missing(std::vector<Lane>& lanes) {
  std::vector<Lane*> left;
  for (Lane& lane : lanes) {
    if (!lane.is_linked()) left.push_back(&lane);
  }
  return left;
}

Error not_linked(const LinkOptions& options, const std::vector<Lane*>& left) {
  Error error;
  std::vector<std::string> names;
  for (const Lane* lane : left) {
    names.push_back(fmt::format("{} at {}", lane->rank, *lane->address));
    if (error.peer.missing.empty() || error.peer.missing.back() != lane->rank)
      error.peer.missing.push_back(lane->rank);
  }
  error.code = ErrorCode::deadline;
  error.message = fmt::format(
      "start-up: rank {} has no link to rank {} (an interface that leads there: DIJI_SOCKET_IFNAME)",
      options.rank, fmt::join(names, ", "));
  error.peer.rank = left.front()->rank;
  return error;
}

// The names between commas; one empty name where there is none.
std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  while (true) {
    const std::size_t comma = list.find(',');
    names.emplace_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return names;
    list.remove_prefix(comma + 1);
  }
}

// What is ready to be heard: calls under way, and who calls. `ready` begins with the listeners.
void hear(const LinkOptions& options, std::span<const LinkListener> listeners, std::vector<Lane>& lanes,
          std::span<Lane* const> left, std::span<const pollfd> ready) {
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (ready[listeners.size() + i].revents == 0) continue;
    Lane& lane = *left[i];
    const LinkCall call{.id = options.id, .from = options.rank, .to = lane.rank, .lane = lane.number};
    auto socket = take_up(call, options.token, std::exchange(lane.call, Socket(-1)), options.deadline_us);
    if (socket) lane.link = std::move(*socket);
  }
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    if (ready[i].revents == 0) continue;
    auto caller = answer(listeners[i].socket.descriptor(), options.id, options.rank, options.token,
                         options.deadline_us);
    if (!caller || caller->first.from >= options.rank) continue;
    const auto lane = std::ranges::find_if(lanes, [&](const Lane& one) {
      return one.rank == caller->first.from && one.number == caller->first.lane;
    });
    // One that calls again did not hear the answer to its first call.
    if (lane != lanes.end()) lane->link = std::move(caller->second);
  }
}

}  // namespace

Result<std::vector<LinkListener>> listen_for_links(const std::string& rendezvous, std::string_view interfaces,
                                                   bool has_token) {
  std::vector<LinkListener> listeners;
  for (const std::string& name : names_in(interfaces)) {
    const std::string own =
        TRY(interfaces.empty() ? own_address_towards(rendezvous) : address_of_interface(name));
    if (!has_token && !TRY(is_loopback(own))) {
      return fail(ErrorCode::usage,
                  "{} can be reached from other hosts: a job there needs a token (DIJI_TOKEN_FILE)", own);
    }
    LinkListener& listener = listeners.emplace_back();
    listener.socket = Socket(TRY(listen_at(own)));
    listener.address = own_address_of(listener.socket.descriptor());
  }
  return listeners;
}

// All higher ranks are called at once, and whoever of all these and of the callers speaks is heard: a rank
// that is silent holds up nobody. Whoever hears another waits for him; waits go from higher ranks to lower
// ones, so never in a circle.
HostLinks connect_links(const LinkOptions& options, std::span<const LinkListener> listeners, int own_lanes,
                        std::span<const Addresses> addresses) {
  constexpr std::int64_t kConnectUs = 200'000;
  constexpr int kPauseMs = 10;
  std::vector<Lane> lanes = lanes_to(addresses, own_lanes);
  std::vector<Lane*> left;
  while (!(left = missing(lanes)).empty() && now_us() < options.deadline_us) {
    std::vector<pollfd> ready;
    for (const LinkListener& listener : listeners) ready.push_back({listener.socket.descriptor(), POLLIN, 0});
    for (Lane* lane : left) {
      if (lane->rank > options.rank && lane->call.descriptor() < 0) {
        const auto until_us = std::min(options.deadline_us, now_us() + kConnectUs);
        lane->call = Socket(connect_to(*lane->address, until_us).value_or(-1));
      }
      ready.push_back({lane->call.descriptor(), POLLIN, 0});
    }
    if (::poll(ready.data(), ready.size(), kPauseMs) > 0) hear(options, listeners, lanes, left, ready);
  }
  HostLinks linked;
  linked.sockets.resize(addresses.size());
  if (!left.empty()) linked.failure = not_linked(options, left);
  for (Lane& lane : lanes) {  // all of a rank, or none
    if (std::ranges::none_of(left, [&](const Lane* one) { return one->rank == lane.rank; }))
      linked.sockets[static_cast<std::size_t>(lane.rank)].push_back(lane.link.release());
  }
  return linked;
}

}  // namespace diji::collective
