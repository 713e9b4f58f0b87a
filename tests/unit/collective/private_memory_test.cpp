// Private memory that peers read: the same results, only where it is permitted and the process is the right
// one, and nothing that was read too late counts.
#include "collective/private_memory.h"

#include "tests/unit/collective/cases_of_threads.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

namespace diji::collective {
namespace {

constexpr std::int64_t kFragment = 64 << 10;
constexpr CallTag kTag{.signature = 5, .sequence = 0};

std::vector<std::byte> bytes_of_value(std::int64_t bytes, int value) {
  return std::vector<std::byte>(static_cast<std::size_t>(bytes), static_cast<std::byte>(value));
}

TEST_CASE("every algorithm gives what its operation's definition says, read in private memory") {
  for (const int ranks : {2, 3, 5}) {
    ThreadWorld world(ranks);
    world.read_private_memory();
    expect_none(
        problems_of(world, every_algorithm(ranks, ranks == 3)));  // or some of it in registered memory
  }
}

TEST_CASE("large operations in private memory, in place too") {
  ThreadWorld world(2);
  world.read_private_memory();
  std::vector<CallCase> cases;
  for (const Operation operation : {Operation::all_gather, Operation::broadcast, Operation::all_to_all,
                                    Operation::scatter, Operation::gather, Operation::all_reduce}) {
    for (const bool in_place : {false, true})
      cases.push_back({.operation = operation, .count = 2'200'003, .in_place = in_place});
  }
  expect_none(problems_of(world, cases));
}

// Two transports without calls: who has sent and read what is exactly known.
struct Pair {
  Pair(PrivateReads zero, PrivateReads one) {
    for (Group& group : groups) {
      RegionAccess access = no_regions();
      access.private_memory = {group.rank == 0 ? zero : one, {getpid(), getpid()}};
      links.push_back(std::make_shared<ShmTransport>(group.segment, group.rank, std::vector{0, 1}, access));
    }
    hear(0);  // the first message of each direction tells whether the next may be read
    hear(1);
  }
  Transport& link(int rank) { return *links[static_cast<std::size_t>(rank)]; }
  void hear(int from) {
    const int to = 1 - from;
    CHECK(link(from).send(std::span(&to, 1), kTag, {}).value().has_value(), "a message");
    CHECK(link(to).peek(from).value().has_value() && link(to).release(from), "that comes");
  }
  Ticket lend(std::span<const std::byte> bytes) {
    const int to = 1;
    return link(0).lend(std::span(&to, 1), kTag, bytes).value().value();
  }

  ThreadWorld world{2};
  Group groups[2] = {world.group(0), world.group(1)};
  std::vector<std::shared_ptr<Transport>> links;
};

TEST_CASE("a lent message is the sender's memory itself, and his again when it was read") {
  Pair pair(PrivateReads::where_faster, PrivateReads::where_faster);
  std::vector<std::byte> memory = bytes_of_value(kFragment, 1);
  const Ticket ticket = pair.lend(memory);
  REQUIRE(ticket != kFree);
  EXPECT(!pair.link(0).is_free(ticket));
  EXPECT(pair.link(0).reader_of(ticket) == 1);
  memory[5] = std::byte{42};  // after it was sent: a copy would not have it
  const auto message = pair.link(1).peek(0).value();
  REQUIRE(message.has_value());
  EXPECT((message->size() == kFragment && message->bytes.empty()));
  std::vector<std::byte> target = bytes_of_value(kFragment, 0);
  EXPECT(pair.link(1).read(0, target.data()).value());
  EXPECT(target == memory);
  EXPECT(!pair.link(0).is_free(ticket));
  EXPECT(pair.link(1).release(0).has_value());
  EXPECT(pair.link(0).is_free(ticket));
  EXPECT(pair.lend(std::span(memory).first(kLentBytesMin - 1)) == kFree);  // short ones are copied
  EXPECT(pair.lend(std::span(memory).first(kLentBytesMin)) != kFree);
}

TEST_CASE("either rank may refuse: then nothing is lent to it or by it") {
  for (const auto& [zero, one] : {std::pair(PrivateReads::never, PrivateReads::where_faster),
                                  std::pair(PrivateReads::where_faster, PrivateReads::never),
                                  std::pair(PrivateReads::never, PrivateReads::never)}) {
    Pair pair(zero, one);
    const std::vector<std::byte> memory = bytes_of_value(kFragment, 3);
    EXPECT(pair.lend(memory) == kFree);
    const auto message = pair.link(1).peek(0).value();
    REQUIRE(message.has_value());
    EXPECT(std::ranges::equal(message->bytes, memory));
  }
}

TEST_CASE("what was read while a rank gave up does not count, nor what it has unmapped") {
  const auto give_up = [](Pair& pair) {
    Error error;
    error.code = ErrorCode::deadline;
    report_failure(pair.world.segment(), error, 0);
  };
  for (const bool unmapped : {false, true}) {
    Pair pair(PrivateReads::where_faster, PrivateReads::where_faster);
    void* memory = mmap(nullptr, kFragment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    REQUIRE(pair.lend({static_cast<const std::byte*>(memory), kFragment}) != kFree);
    REQUIRE(pair.link(1).peek(0).value().has_value());
    std::vector<std::byte> target = bytes_of_value(kFragment, 0);
    if (unmapped) munmap(memory, kFragment);
    if (unmapped) {  // by a rank that has not said why: an error that names it
      const auto read = pair.link(1).read(0, target.data());
      REQUIRE(!read.has_value());
      EXPECT(read.error().code == ErrorCode::io);
      EXPECT(read.error().peer.rank == 0);
      EXPECT(read.error().message.find("DIJI_PROCESS_VM=off") != std::string::npos);
    } else {
      EXPECT(pair.link(1).read(0, target.data()).value());
    }
    give_up(pair);
    if (unmapped) EXPECT(pair.link(1).read(0, target.data()).error().code == ErrorCode::aborted);
    EXPECT(pair.link(1).release(0).error().code == ErrorCode::aborted);
    if (!unmapped) munmap(memory, kFragment);
  }
}

TEST_CASE("a late peer learns why the other gave up, though its memory is gone") {
  ThreadWorld world(2, {.timeout_us = 100'000});
  world.read_private_memory();
  std::atomic<bool> gave_up = false;
  world.run([&](Communicator& communicator) {
    EXPECT(communicator.run({.operation = Operation::barrier}).has_value());
    std::vector<std::byte> target = bytes_of_value(4 * kFragment, 7);
    Call call{.operation = Operation::broadcast, .output = target.data(), .count = kFragment};
    if (communicator.rank() == 0) {
      const std::vector<std::byte> memory = bytes_of_value(4 * kFragment, 1);
      call.input = memory.data();
      const auto sent = communicator.run(call);
      REQUIRE(!sent.has_value());
      EXPECT(sent.error().code == ErrorCode::deadline);
    } else {
      while (!gave_up.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const auto received = communicator.run(call);
      REQUIRE(!received.has_value());
      EXPECT(received.error().message.find("waits") != std::string::npos);  // the sender's sentence
      EXPECT(std::ranges::count(target, std::byte{7}) == std::ssize(target));
    }
    gave_up = true;
  });
}

// Memory that a process can read and the kernel cannot read for others, as that of devices' drivers: the page
// with the kernel's clocks.
std::span<const std::byte> memory_of_a_driver() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("[vvar]") == std::string::npos) continue;
    const std::uintptr_t start = std::strtoull(line.c_str(), nullptr, 16);
    return {reinterpret_cast<const std::byte*>(start), 4096};
  }
  return {};
}

TEST_CASE("memory that the kernel does not read for others is copied") {
  const std::vector<std::byte> usual = bytes_of_value(kFragment, 1);
  EXPECT(is_readable_by_others(usual));
  EXPECT(is_readable_by_others({}));
  void* hole = mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(hole != MAP_FAILED);
  auto* bytes = static_cast<std::byte*>(hole);
  munmap(bytes + 4096, 4096);
  EXPECT(is_readable_by_others({bytes, 4096}));
  EXPECT_FALSE(is_readable_by_others({bytes, 4097}));
  munmap(bytes, 4096);
  munmap(bytes + 2 * 4096, 4096);
  const std::span<const std::byte> special = memory_of_a_driver();
  if (special.empty() || is_readable_by_others(special)) {
    MESSAGE("not run: this kernel shows no [vvar] that it does not read for others");
    return;
  }
  Pair pair(PrivateReads::always, PrivateReads::always);
  EXPECT(pair.lend(std::span(usual).first(4096)) != kFree);
  EXPECT(pair.lend(special) == kFree);
}

// A process that says in shared memory that it is there, and goes on in `body`.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    while (true) pause();
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  int pid() const { return pid_; }
  void end() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  int pid_;
};

struct Shared {
  std::atomic<int> said = -1;
  PrivateOffer offer;
};

template <typename T>
class SharedPage {
 public:
  SharedPage() : memory_(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    CHECK(memory_ != MAP_FAILED, "a page");
    new (memory_) T;
  }
  ~SharedPage() { munmap(memory_, 4096); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  T* operator->() const { return static_cast<T*>(memory_); }
  T& operator*() const { return *static_cast<T*>(memory_); }

 private:
  void* memory_;
};

int said_soon(const std::atomic<int>& said) {
  for (int look = 0; look < 5000 && said < 0; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return said;
}

TEST_CASE("only the process that has the word is read; one that is gone is gone") {
  static std::uint64_t word;  // at the same address in parent and child
  word = 11;
  const SharedPage<Shared> shared;
  shared->offer.word = 12;
  EXPECT_FALSE(PrivateMemory(getpid(), shared->offer).may_read());  // no address: nothing is offered
  shared->offer.address = reinterpret_cast<std::uintptr_t>(&word);
  EXPECT_FALSE(PrivateMemory(getpid(), shared->offer).may_read());  // another process, with a word of its own
  Child child([&] {
    word = 12;
    shared->said = 1;
  });
  REQUIRE(said_soon(shared->said) == 1);
  const PrivateMemory memory(child.pid(), shared->offer);
  if (!memory.may_read()) {
    MESSAGE("not run: this kernel lets no process read another one's memory, a child neither");
    return;
  }
  std::array<std::byte, 8> target{};
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&word));
  EXPECT(memory.read(address, target) == PrivateMemory::Outcome::whole);
  EXPECT(target[0] == std::byte{12});
  EXPECT(memory.read(16, target) == PrivateMemory::Outcome::denied);  // nothing lies there
  EXPECT(errno == EFAULT);
  child.end();
  EXPECT(memory.read(address, target) == PrivateMemory::Outcome::gone);
}

TEST_CASE("where a filter withholds the call, nobody may read, and messages are copied") {
  const SharedPage<Shared> shared;
  Child child([&] {
    const std::array<sock_filter, 4> program = {
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter{program.size(), const_cast<sock_filter*>(program.data())};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
      shared->said = 2;
      return;
    }
    Pair pair(PrivateReads::always, PrivateReads::always);
    shared->said = pair.lend(bytes_of_value(kFragment, 1)) == kFree ? 1 : 0;
  });
  const int said = said_soon(shared->said);
  if (said == 2) {
    MESSAGE("not run: this process may not filter its own calls");
    return;
  }
  EXPECT(said == 1);
}

TEST_CASE("DIJI_PROCESS_VM is on or off; other words are refused") {
  EXPECT(private_reads_from_environment().value() == PrivateReads::where_faster);
  setenv("DIJI_PROCESS_VM", "off", 1);
  EXPECT(private_reads_from_environment().value() == PrivateReads::never);
  setenv("DIJI_PROCESS_VM", "1", 1);
  const auto refused = private_reads_from_environment();
  unsetenv("DIJI_PROCESS_VM");
  REQUIRE(!refused.has_value());
  EXPECT(refused.error().code == ErrorCode::usage);
  EXPECT(refused.error().message == "DIJI_PROCESS_VM=1: there are on and off");
}

TEST_CASE("reads are for what they were measured to make faster") {
  EXPECT(reads_are_faster(Operation::all_gather, 8 << 20, 2, 2));
  EXPECT_FALSE(reads_are_faster(Operation::all_gather, 64 << 20, 2, 2));
  EXPECT_FALSE(reads_are_faster(Operation::all_gather, 1 << 20, 8, 2));  // more ranks than cores
  EXPECT(reads_are_faster(Operation::broadcast, 256 << 10, 2, 2));
  EXPECT_FALSE(reads_are_faster(Operation::broadcast, 4 << 20, 2, 2));
  EXPECT_FALSE(reads_are_faster(Operation::all_reduce, 1 << 20, 2, 2));
}

}  // namespace
}  // namespace diji::collective
