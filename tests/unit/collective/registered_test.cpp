// Memory that peers read in place: the same results, no copies, and nobody reads what was freed or waits for
// whoever is gone.
#include "collective/registered.h"

#include "collective/shm_transport.h"
#include "tests/unit/collective/cases_of_threads.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace diji::collective {
namespace {

constexpr std::int64_t kFragment = 64 << 10;
constexpr CallTag kTag{.signature = 5, .sequence = 0};

TEST_CASE("every algorithm gives what its operation's definition says, whoever registers which side") {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const bool share : {false, true}) {
      if (share && ranks == 5) continue;
      ThreadWorld world(ranks);
      if (share) world.share_mappings();
      expect_none(problems_of(world, every_algorithm(ranks, true)));
    }
  }
}

TEST_CASE("large operations in registered memory, streamed and in many slices") {
  ThreadWorld world(2);
  std::vector<CallCase> cases;
  for (const Operation operation : {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                                    Operation::broadcast, Operation::all_to_all}) {
    const unsigned registered = cases.size() % 2 == 0 ? 15 : 6;
    cases.push_back({.operation = operation,
                     .count = 2'200'003,
                     .in_place = operation == Operation::all_gather,
                     .registered = registered});
  }
  expect_none(problems_of(world, cases));
}

TEST_CASE("what lies in a region is found, whole; peers map it once, and give it back when it is freed") {
  ThreadWorld world(2);
  world.run([&](Communicator& communicator) {
    RegisteredMemory& memory = world.memory(communicator.rank());
    Allocation first = communicator.allocate(4 * kFragment).value();
    const Allocation second = communicator.allocate(100).value();
    EXPECT(first.size() == 4 * kFragment);
    EXPECT(reinterpret_cast<std::uintptr_t>(first.data()) % 4096 == 0);
    EXPECT(memory.find(first.bytes()).has_value());
    EXPECT(memory.find(first.bytes().subspan(4096))->offset == 4096);
    EXPECT(memory.find(second.bytes())->region != memory.find(first.bytes())->region);
    EXPECT(!memory.find({second.data() + 1, 100}).has_value());  // one byte too far
    EXPECT(!memory.find({first.data() - 1, 1}).has_value());
    const Call call{.operation = Operation::all_reduce,
                    .input = first.data(),
                    .output = first.data(),
                    .count = 4 * kFragment / 4,
                    .type = ElementType::i32};
    std::ranges::fill(first.bytes(), std::byte{1});
    for (int i = 0; i < 3; ++i) EXPECT(communicator.run(call).has_value());
    EXPECT(first.data()[17] == std::byte{8});
    EXPECT(memory.mapped() == 1);
    Allocation moved = std::move(first);
    EXPECT(memory.find(moved.bytes()).has_value());
    moved = {};
    EXPECT(communicator.run({.operation = Operation::barrier}).has_value());
    memory.drop_freed();
    EXPECT(memory.mapped() == 0);
  });
}

TEST_CASE("the same call at the same address reads the memory that is there now, not what was freed") {
  ThreadWorld world(2);
  world.run([&](Communicator& communicator) {
    int same_address = 0;
    const std::byte* before = nullptr;
    for (int round = 1; round <= 20; ++round) {
      const Allocation memory = communicator.allocate(4 * kFragment).value();
      same_address += memory.data() == before ? 1 : 0;
      before = memory.data();
      auto* elements = reinterpret_cast<std::int32_t*>(memory.data());
      std::fill_n(elements, kFragment, round);
      const Call call{.operation = Operation::all_reduce,
                      .input = elements,
                      .output = elements,
                      .count = kFragment,
                      .type = ElementType::i32};
      EXPECT(communicator.run(call).has_value());
      EXPECT(std::count(elements, elements + kFragment, 2 * round) == kFragment);
    }
    EXPECT(same_address > 0);  // or this test shows nothing
  });
}

// Two transports without calls: who has sent and read what is exactly known.
struct Pair {
  ThreadWorld world{2};
  Group groups[2] = {world.group(0), world.group(1)};
  Transport& sender() { return *groups[0].links[1]; }
  Transport& reader() { return *groups[1].links[0]; }
  RegisteredMemory& memory(int rank) { return *groups[rank].memory; }
  Ticket send(std::span<const std::byte> bytes) {
    const int to = 1;
    return sender().send(std::span(&to, 1), kTag, bytes).value().value();
  }
  std::optional<Message> peek_soon() {
    for (int look = 0; look < 2000; ++look) {
      auto message = reader().peek(0).value();
      if (message) return message;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
  }
};

TEST_CASE("a message is the sender's memory itself, and his again when it was read") {
  Pair pair;
  const Allocation memory = pair.memory(0).allocate(kFragment).value();
  const Ticket ticket = pair.send(memory.bytes());
  EXPECT(ticket != kFree);
  EXPECT(!pair.sender().is_free(ticket));
  EXPECT(pair.sender().reader_of(ticket) == 1);
  memory.data()[5] = std::byte{42};  // after it was sent: a copy would not have it
  const auto message = pair.peek_soon();
  REQUIRE(message.has_value());
  EXPECT(message->bytes[5] == std::byte{42});
  EXPECT(pair.reader().release(0).has_value());
  EXPECT(pair.sender().is_free(ticket));
  EXPECT(pair.send(memory.bytes().first(1000)) == kFree);  // short ones are copied
}

TEST_CASE("freed while a peer reads: it keeps what it reads; freed before it looks: an error, never a read") {
  Pair pair;
  std::optional<Allocation> memory = pair.memory(0).allocate(kFragment).value();
  memory->data()[9] = std::byte{9};
  pair.send(memory->bytes());
  pair.send(memory->bytes());
  const auto message = pair.peek_soon();
  REQUIRE(message.has_value());
  memory.reset();
  pair.memory(1).drop_freed();
  EXPECT(message->bytes[9] == std::byte{9});
  EXPECT(pair.reader().release(0).has_value());
  const auto late = pair.reader().peek(0);
  REQUIRE(!late.has_value());
  EXPECT(late.error().code == ErrorCode::corrupted);
}

TEST_CASE("what was read while a rank gave up does not count: its memory may have changed") {
  Pair pair;
  const Allocation memory = pair.memory(0).allocate(kFragment).value();
  pair.send(memory.bytes());
  REQUIRE(pair.peek_soon().has_value());
  Error error;
  error.code = ErrorCode::deadline;
  report_failure(pair.world.segment(), error, 0);
  EXPECT(pair.reader().release(0).error().code == ErrorCode::aborted);
}

TEST_CASE("a late peer learns why the others gave up, though their memory is freed") {
  ThreadWorld world(2, {.timeout_us = 100'000});
  std::atomic<bool> gave_up = false;
  world.run([&](Communicator& communicator) {
    const std::vector<std::byte> nothing(static_cast<std::size_t>(4 * kFragment));
    if (communicator.rank() == 0) {
      const Allocation memory = communicator.allocate(4 * kFragment).value();
      const auto sent = communicator.run(
          {.operation = Operation::send, .input = memory.data(), .count = kFragment, .peer = 1});
      EXPECT(sent.error().code == ErrorCode::deadline);
    } else {
      while (!gave_up.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::vector<std::byte> target(static_cast<std::size_t>(4 * kFragment), std::byte{7});
      const auto received = communicator.run(
          {.operation = Operation::receive, .output = target.data(), .count = kFragment, .peer = 0});
      REQUIRE(!received.has_value());
      EXPECT(received.error().message.find("waits") != std::string::npos);  // the sender's sentence
      EXPECT(std::ranges::count(target, std::byte{7}) == std::ssize(target));
    }
    gave_up = true;
  });
}

// Listens as a DescriptorServer does whose process is stopped: the kernel connects, nobody answers.
class StoppedServer {
 public:
  StoppedServer() : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    address().copy(name.sun_path + 1, sizeof(name.sun_path) - 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address().size());
    CHECK(bind(socket_, reinterpret_cast<const sockaddr*>(&name), length) == 0 && listen(socket_, 8) == 0,
          "an abstract socket");
  }
  ~StoppedServer() { close(socket_); }
  StoppedServer(const StoppedServer&) = delete;
  StoppedServer& operator=(const StoppedServer&) = delete;
  std::string address() const { return fmt::format("diji-stopped-{}", getpid()); }

 private:
  int socket_;
};

TEST_CASE("nobody listens at the owner any more, or it never answers: a peek says not now, at once") {
  Pair pair;
  const Allocation memory = pair.memory(0).allocate(kFragment).value();
  RegisteredMemory reader(pair.groups[1].server);
  const std::uint64_t region = pair.memory(0).find(memory.bytes())->region;
  const auto begin = std::chrono::steady_clock::now();
  const auto nobody = reader.map("diji-no-such-server", region);
  REQUIRE(nobody.has_value());
  EXPECT(*nobody == nullptr);
  {
    const StoppedServer stopped;
    for (int look = 0; look < 100; ++look) {
      const auto silent = reader.map(stopped.address(), region);
      REQUIRE(silent.has_value());
      EXPECT(*silent == nullptr);
    }
  }
  EXPECT(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1000));  // 100 waits are 2 s
  EXPECT(!reader.map(pair.groups[0].server->address(), region + 1).has_value());  // there is no such region
  const auto there = reader.map(pair.groups[0].server->address(), region);
  EXPECT(there.has_value());
}

TEST_CASE("a forked child frees nothing of its parent's") {
  Pair pair;
  RegisteredMemory reader(pair.groups[1].server);
  std::optional<Allocation> memory = pair.memory(0).allocate(kFragment).value();
  const std::uint64_t region = pair.memory(0).find(memory->bytes())->region;
  const auto map = [&] {
    Result<std::shared_ptr<SharedMemory>> mapped = nullptr;
    for (int look = 0; look < 1000 && mapped && !*mapped; ++look)
      mapped = reader.map(pair.groups[0].server->address(), region);
    return mapped && *mapped != nullptr;
  };
  EXPECT(map());
  const pid_t child = fork();
  if (child == 0) {
    memory.reset();
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  EXPECT(status == 0);
  reader.drop_freed();
  EXPECT(reader.mapped() == 1);
  EXPECT(RegisteredMemory(pair.groups[1].server).map(pair.groups[0].server->address(), region).has_value());
  memory.reset();
  reader.drop_freed();
  EXPECT(reader.mapped() == 0);
  EXPECT(!map());
}

TEST_CASE("too much memory is an error with its size; so are too many regions and none") {
  ThreadWorld world(1);
  world.run([&](Communicator& communicator) {
    const auto huge = communicator.allocate(std::int64_t{1} << 45);
    REQUIRE(!huge.has_value());
    EXPECT(huge.error().code == ErrorCode::out_of_memory);
    EXPECT(huge.error().message.find("35184372") != std::string::npos);
    EXPECT(communicator.allocate(0).error().code == ErrorCode::usage);
    EXPECT(communicator.allocate(-5).error().code == ErrorCode::usage);
    EXPECT(communicator.allocate(1).has_value());
  });
}

std::int64_t descriptors_of_this_process() {
  return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                               std::filesystem::directory_iterator());
}
std::int64_t registered_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::int64_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("diji-registered") != std::string::npos ? 1 : 0;
  return count;
}

TEST_CASE("a thousand regions, one after the other, leave no descriptor and no mapping behind") {
  ThreadWorld world(2);
  std::int64_t before = 0;
  world.run([&](Communicator& communicator) {
    const auto meet = [&] { EXPECT(communicator.run({.operation = Operation::barrier}).has_value()); };
    meet();
    if (communicator.rank() == 0) before = descriptors_of_this_process();
    meet();
    for (int i = 0; i < 500; ++i) {  // by each of two ranks
      const Allocation memory = communicator.allocate(2 * kFragment).value();
      const auto done = communicator.run({.operation = Operation::all_reduce,
                                          .input = memory.data(),
                                          .output = memory.data(),
                                          .count = 2 * kFragment / 4});
      REQUIRE(done.has_value());
      EXPECT(world.memory(communicator.rank()).mapped() <= 2);
    }
    meet();
    world.memory(communicator.rank()).drop_freed();
    meet();
    if (communicator.rank() != 0) return;
    EXPECT(registered_mappings() == 0);
    EXPECT(descriptors_of_this_process() == before);
  });
}

}  // namespace
}  // namespace diji::collective
