// The programs that start ranks: how each tells a process who it is. A row of launchers.cpp each.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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
  std::int64_t deadline_us = 0;   ///< of start-up, when it began before; 0: timeout_us from now
  std::string source = "alone";   ///< the launcher's name
  std::shared_ptr<void> port;     ///< rank 0's, where it chose the address: nobody else is given it
  std::shared_ptr<void> session;  ///< with a launcher that listens; ends with the last copy
};

/// The value of a variable; nothing where it is not set or empty.
using Environment = std::function<std::optional<std::string>(const char*)>;
/// This process's.
std::optional<std::string> variable(const char* name);

enum class Applies : std::uint8_t {
  no,
  perhaps,  ///< something of it is there, which may be left over from an outer job
  yes,
};

/// A way to be started.
struct Launcher {
  std::string_view name;  ///< for DIJI_LAUNCHER and Identity::source
  Applies (*applies)(const Environment&);
  /// Fills in rank, world, address and, where it has one, the token, before the identity's deadline. Errors:
  /// usage, naming the variable that is missing or wrong, and those of the launcher's own protocol.
  Result<void> (*identify)(const Environment&, Identity&);
};

/// The first that applies wins: what is named most clearly, then what is innermost.
std::span<const Launcher> launchers();
/// DIJI_LAUNCHER's, else the first whose variables are all there, else the first of which some are. Errors:
/// usage (DIJI_LAUNCHER names none).
Result<const Launcher*> launcher_of(const Environment& environment);

/// Of the launcher, with DIJI_TOKEN_FILE, DIJI_TIMEOUT, DIJI_WARN_AFTER (seconds after which a waiting rank
/// warns once) and DIJI_HOST_ID whoever it is. `timeout_us` below 0: DIJI_TIMEOUT's. A launcher with
/// key-value space is asked once a process. Errors: usage, naming the variable that is missing or no number,
/// or a token file that others may read; deadline, peer_lost, corrupted, no_device of PMI and PMIx.
Result<Identity> identity_from(const Environment& environment, std::int64_t timeout_us = -1);

}  // namespace diji::collective
