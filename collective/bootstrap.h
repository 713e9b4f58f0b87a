// From what a launcher left in the environment to a communicator of all ranks.
#pragma once

#include "base/error.h"
#include "collective/communicator.h"
#include "collective/launchers.h"

#include <memory>

namespace diji::collective {

/// DIJI_TCP_CRC: whether what this rank sends over sockets has a CRC. Errors: usage.
Result<bool> payload_crc_from_environment();

/// Meets the other ranks, shares the memory of the host with those on it and links this one with those on
/// others. DIJI_TRANSPORT=tcp: links with all. DIJI_SOCKET_IFNAME: the interface to be called at.
Result<Group> join(const Identity& identity);

/// Joins the job that the launcher's variables name. Times of `options` below 0: the identity's. Meeting the
/// others is a wait like any other: it ends after `options.timeout_us`. Errors of identity_from and join.
Result<std::unique_ptr<Communicator>> communicator_of_job(CommunicatorOptions options = {.timeout_us = -1,
                                                                                         .warning_us = -1});

}  // namespace diji::collective
