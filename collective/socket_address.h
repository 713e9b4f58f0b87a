// Names of sockets: HOST:PORT with IPv4, IPv6 or a host's name.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <string>

namespace diji::collective {

/// Listens; the descriptor does not block. Errors: usage (no such address), io (in use, not ours).
Result<int> listen_at(const std::string& address);
/// A connected socket that does not block, or -1 where nobody listens there yet. Errors: usage.
Result<int> connect_to(const std::string& address, std::int64_t deadline_us);
/// Whether the host of the address says that no process listens there; false where it says nothing.
bool nobody_listens_at(const std::string& address);
/// Whether only this host can reach the address. Errors: usage.
Result<bool> is_loopback(const std::string& address);
/// A port of the loopback interface that no other process is given while the descriptor is open, and at which
/// listen_at works all the same. Errors: io.
Result<int> reserve_loopback_port();
/// The same at HOST:PORT; port 0 is any.
Result<int> reserve_port_at(const std::string& address);
/// "10.0.0.1:0": of the interface over which packets to `address` leave this host. Errors: usage, io (no way
/// there).
Result<std::string> own_address_towards(const std::string& address);
/// The same of the interface `name`, which must be up and have an address. Errors: usage.
Result<std::string> address_of_interface(const std::string& name);
/// "10.0.0.1:0": at which other hosts reach this one: of the interface `name`, else (where that is empty) of
/// the one with the way out, else of any that is up, else the loopback address. Errors: of
/// address_of_interface.
Result<std::string> address_for_others(const std::string& name);
/// "10.0.0.1:4000" or "[::1]:4000" of either end of a socket; "?" where it has none.
std::string own_address_of(int socket);
std::string peer_address_of(int socket);

}  // namespace diji::collective
