// From what a launcher left in the environment to a communicator of all ranks.
#pragma once

#include "base/error.h"
#include "collective/communicator.h"

#include <cstdint>
#include <memory>
#include <string>

namespace diji::collective {

/// The longest time-out, 11 days: no sum of times overflows, nor any other unit.
inline constexpr std::int64_t kTimeoutMaxUs = 1'000'000'000'000;

/// Who this process is in its job. A job of one where no launcher says otherwise.
struct Identity {
  int rank = 0;
  int world = 1;
  std::string address;  ///< of the rendezvous
  std::string token;
  std::string host;  ///< what tells hosts apart: DIJI_HOST_ID, else this boot and network namespace
  std::int64_t timeout_us = 120'000'000;
  std::int64_t warning_us = 5'000'000;
  std::string source = "alone";  ///< "diji launch", "torchrun", …
};

/// DIJI_RANK, DIJI_WORLD_SIZE, DIJI_RENDEZVOUS, DIJI_TOKEN_FILE, DIJI_TIMEOUT, DIJI_WARN_AFTER (seconds after
/// which a waiting rank warns once), DIJI_HOST_ID of `diji launch`, else RANK, WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT of torchrun. Errors: usage, naming the variable that is missing or no number; a token file
/// that others may read is refused.
Result<Identity> identity_from_environment();

/// DIJI_TCP_CRC: whether what this rank sends over sockets has a CRC. Errors: usage.
Result<bool> payload_crc_from_environment();

/// Meets the other ranks, shares the memory of the host with those on it and links this one with those on
/// others. DIJI_TRANSPORT=tcp: links with all. DIJI_SOCKET_IFNAME: the interface to be called at.
Result<Group> join(const Identity& identity);

/// Both of the above. Times of `options` below 0: the identity's. Meeting the others is a wait like any
/// other: it ends after `options.timeout_us`.
Result<std::unique_ptr<Communicator>> communicator_of_job(CommunicatorOptions options = {.timeout_us = -1,
                                                                                         .warning_us = -1});

}  // namespace diji::collective
