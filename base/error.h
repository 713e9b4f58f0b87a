// Errors are values: Result<T> crosses every module border, and an Error says what, where and what to do.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace diji {

/// What kind of thing went wrong. The command line's exit code follows from it (exit_code below).
enum class ErrorCode : std::uint8_t {
  failed,       ///< the job ran and the answer is "no": a comparison or check did not hold
  usage,        ///< a wrong option, name or value given by the caller
  not_found,    ///< a file that is not there
  malformed,    ///< a file that is cut off, absurd or contradicts itself
  unsupported,  ///< well formed, but diji cannot do it (yet)
  mismatch,     ///< an input's name, dtype, rank or size does not fit the model
  data,         ///< a value in the data is out of range (an index, a divisor), found by a kernel at run time
  io,           ///< reading or writing failed
  no_device,    ///< no such device, or its plugin or driver does not fit
  out_of_memory,  ///< a pool's limit or the machine's memory is reached
  device,         ///< a device or its compiler reported a failure
  deadline,       ///< a deadline passed: whoever was waited for may still be alive
  peer_lost,      ///< a rank is dead or has left
  call_mismatch,  ///< ranks of one communicator do different things
  corrupted,      ///< what came over a link is not what was sent
  aborted,        ///< somebody else's failure, or abort(), ended the communicator
};

/// "malformed", the spelling in JSON.
std::string_view name_of(ErrorCode code);
/// The command's contract: 1 failed, 2 usage, 3 bad input, 4 environment, 5 peer or deadline.
int exit_code(ErrorCode code);

/// Of an error between ranks: whose, where, in which call.
struct PeerFields {
  std::int64_t rank = -1;  ///< the one to blame
  std::string host;
  std::int64_t pid = -1;
  std::int64_t sequence = -1;  ///< of the call
  double elapsed_s = -1;       ///< since it began here
  std::vector<int> missing;    ///< ranks that did not come
  std::string peer_args;       ///< what the other side called
};

/// A sentence for people and typed fields for programs. Empty strings and -1 mean "does not apply".
struct Error {
  ErrorCode code = ErrorCode::failed;
  std::string message;
  std::string file;              ///< the file the error is in
  std::int64_t offset = -1;      ///< byte offset in that file
  std::string op;                ///< operator or node
  std::string dtype;             ///< dtype found
  std::string shape;             ///< shape found
  std::int64_t bytes = -1;       ///< size asked for, of out_of_memory
  std::string pool;              ///< pool and its state, of out_of_memory
  bool stretchable = false;      ///< of mismatch: of two sizes that were taken as equal, one is 1
  bool contents_decide = false;  ///< of unsupported: contents that are not known yet decide ranks or axes
  std::vector<std::string> deciding_values;  ///< then, by the names in the model's file; empty: not nameable
  PeerFields peer;
};

template <typename T>
using Result = std::expected<T, Error>;

/// `return fail(ErrorCode::usage, "{} is not a verb", name);`
template <typename... Args>
[[nodiscard]] std::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  Error error;
  error.code = code;
  error.message = fmt::format(text, std::forward<Args>(args)...);
  return std::unexpected(std::move(error));
}

/// The same error with its sentence set in a wider one: `context("input 'x'", error)` reads "input 'x': …".
[[nodiscard]] std::unexpected<Error> in_context(std::string_view where, Error error);

}  // namespace diji

/// The value of a Result, or return its error from the calling function (a GCC/Clang statement expression).
/// The counter gives each use a name of its own, so that one may stand inside another.
#define TRY(expression) DIJI_TRY_AS(expression, __COUNTER__)
#define DIJI_TRY_AS(expression, number) DIJI_TRY_NAMED(expression, number)
#define DIJI_TRY_NAMED(expression, number)                                                    \
  ({                                                                                          \
    auto try_result_##number = (expression);                                                  \
    if (!try_result_##number) return std::unexpected(std::move(try_result_##number).error()); \
    *std::move(try_result_##number);                                                          \
  })
