// Hands descriptors of memory to other processes of this host. That it arrives is the proof of one host.
#pragma once

#include "base/error.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace diji::collective {

/// Listens on an abstract unix socket with a random name and answers whoever runs as the same user. One
/// thread, which sleeps; it ends with the object.
class DescriptorServer {
 public:
  static Result<std::unique_ptr<DescriptorServer>> start();
  ~DescriptorServer();
  DescriptorServer(const DescriptorServer&) = delete;
  DescriptorServer& operator=(const DescriptorServer&) = delete;

  /// What the others must know to ask.
  const std::string& address() const;
  /// From now on `key` is answered with a copy of the descriptor, which stays the caller's and must outlive
  /// offer.
  void offer(std::uint64_t key, int descriptor);
  void withdraw(std::uint64_t key);

 private:
  struct State;
  explicit DescriptorServer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Asks the server at `address` for `key`, again until `deadline_us` while it has none. Errors: io, where
/// nobody listens there (another host or network namespace, or dead); deadline.
Result<int> fetch_descriptor(const std::string& address, std::uint64_t key, std::int64_t deadline_us);

/// The same question without waiting for its answer.
class DescriptorRequest {
 public:
  enum class State : std::uint8_t {
    waits,  ///< ask again
    there,
    unknown,  ///< the server does not offer the key
    broken,   ///< nobody listens there, or not any more
  };
  struct Answer {
    State state = State::waits;
    int descriptor = -1;  ///< there: the caller's
  };
  DescriptorRequest(const std::string& address, std::uint64_t key);
  ~DescriptorRequest();
  DescriptorRequest(const DescriptorRequest&) = delete;
  DescriptorRequest& operator=(const DescriptorRequest&) = delete;
  /// Waits at most `wait_ms`. After anything but `waits` the request is over.
  Answer answer(int wait_ms);

 private:
  int socket_ = -1;
};

}  // namespace diji::collective
