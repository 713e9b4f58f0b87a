// Calls that are handed over or prepared: the results of calls made on the spot, in the order in which they
// were named.
#include "tests/unit/collective/thread_world.h"
#include "tests/unit/expect.h"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <numeric>

namespace diji::collective {
namespace {

using Integers = std::vector<std::int64_t>;
constexpr int kCalls = 200;

Call sum_of(const Integers& input, Integers& output) {
  return {.operation = Operation::all_reduce,
          .input = input.data(),
          .output = output.data(),
          .count = std::ssize(input),
          .type = ElementType::i64};
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST_CASE("calls that are handed over are made in order, beside those made on the spot") {
  ThreadWorld(3).run([](Communicator& communicator) {
    std::vector<Integers> inputs;
    std::vector<Integers> outputs(kCalls, Integers(5));
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < kCalls; ++i) {
      inputs.emplace_back(5, i + communicator.rank());
      const std::string algorithm = i % 2 == 0 ? "ring" : "direct";  // gone when its turn comes
      Call call = sum_of(inputs.back(), outputs[static_cast<std::size_t>(i)]);
      call.algorithm = algorithm;
      if (i % 10 == 9) {
        EXPECT(communicator.run(call).has_value());
        for (const auto& work : works) EXPECT(work->done());  // whoever waits his turn waits for all before
        continue;
      }
      auto work = communicator.start(call);
      REQUIRE(work.has_value());
      works.push_back(*std::move(work));
    }
    for (const auto& work : works) {
      EXPECT(work->wait().has_value());
      EXPECT(work->wait(0).has_value());  // as often as one likes
    }
    for (int i = 0; i < kCalls; ++i) EXPECT(outputs[static_cast<std::size_t>(i)] == Integers(5, 3 * i + 3));
    EXPECT(communicator.calls() == kCalls);
  });
}

TEST_CASE("blocks of different lengths are kept with the call") {
  ThreadWorld(2).run([](Communicator& communicator) {
    const Integers mine(communicator.rank() == 0 ? 3 : 1, communicator.rank() + 1);
    Integers all(4);
    std::shared_ptr<Work> work;
    {
      const Integers counts{3, 1};
      work = communicator
                 .start({.operation = Operation::all_gather,
                         .input = mine.data(),
                         .output = all.data(),
                         .type = ElementType::i64,
                         .counts = counts})
                 .value();
    }
    EXPECT(work->wait().has_value());
    EXPECT(all == Integers{1, 1, 1, 2});
  });
}

TEST_CASE("sends and receives that are handed over together may cross") {
  ThreadWorld(2).run([](Communicator& communicator) {
    const int other = 1 - communicator.rank();
    const Integers mine(100'000, communicator.rank());
    Integers theirs(100'000, -1);
    const Call calls[] = {{.operation = Operation::send,
                           .input = mine.data(),
                           .count = std::ssize(mine),
                           .type = ElementType::i64,
                           .peer = other},
                          {.operation = Operation::receive,
                           .output = theirs.data(),
                           .count = std::ssize(theirs),
                           .type = ElementType::i64,
                           .peer = other}};
    const auto work = communicator.start_group(calls);
    REQUIRE(work.has_value());
    EXPECT((*work)->wait().has_value());
    EXPECT(theirs == Integers(100'000, other));
  });
}

TEST_CASE("a wait may be shorter than the call, which goes on") {
  std::atomic<bool> go = false;
  ThreadWorld(2).run([&](Communicator& communicator) {
    const Integers input{1};
    Integers output{0};
    if (communicator.rank() == 1) go.wait(false);
    const auto work = communicator.start(sum_of(input, output));
    REQUIRE(work.has_value());
    if (communicator.rank() == 0) {
      const auto waited = (*work)->wait(1'000);
      REQUIRE(!waited.has_value());
      EXPECT(waited.error().code == ErrorCode::deadline);
      EXPECT(waited.error().message == "the call is not over after 0.001 s; it goes on");
      EXPECT(!(*work)->done());
      go = true;
      go.notify_all();
    }
    EXPECT((*work)->wait().has_value());
    EXPECT(output == Integers{2});
  });
}

TEST_CASE("what is in flight ends at its deadline with an error; what comes after it ends with the same") {
  ThreadWorld(2).run([](Communicator& communicator) {
    if (communicator.rank() == 1) return;
    const Integers input{1};
    Integers output{0};
    Call call = sum_of(input, output);
    call.timeout_us = 10'000;
    const auto first = communicator.start(call).value();
    const auto second = communicator.start(call).value();
    const auto failed = first->wait();
    REQUIRE(!failed.has_value());
    // Rank 1 has left or is about to.
    EXPECT((failed.error().code == ErrorCode::deadline || failed.error().code == ErrorCode::peer_lost));
    EXPECT(failed.error().peer.rank == 1);
    EXPECT(second->wait().error().message == failed.error().message);
    EXPECT(communicator.run(call).error().message == failed.error().message);
  });
}

TEST_CASE("abort from another thread ends all that is in flight") {
  ThreadWorld(2).run([](Communicator& communicator) {
    const Integers input(1'000, 1);
    std::vector<Integers> outputs(64, Integers(1'000));
    std::vector<std::shared_ptr<Work>> works;
    if (communicator.rank() == 0) {
      for (Integers& output : outputs) works.push_back(communicator.start(sum_of(input, output)).value());
    }
    std::thread([&] { communicator.abort("the user pressed a key"); }).join();
    for (const auto& work : works) {
      const auto waited = work->wait();
      EXPECT((!waited.has_value() && waited.error().code == ErrorCode::aborted));
    }
  });
}

TEST_CASE(
    "destruction waits for what was handed over; a handle outlives the communicator; no thread is left") {
  const auto before = threads_of_this_process();
  for (int round = 0; round < 50; ++round) {
    Integers outputs[2] = {Integers(10), Integers(10)};
    std::shared_ptr<Work> works[2];
    {
      ThreadWorld(2).run([&](Communicator& communicator) {
        static const Integers input(10, 4);
        const auto rank = static_cast<std::size_t>(communicator.rank());
        works[rank] = communicator.start(sum_of(input, outputs[rank])).value();
      });
    }
    for (const auto& work : works) EXPECT((work->done() && work->wait().has_value()));
    for (const Integers& output : outputs) EXPECT(output == Integers(10, 8));
  }
  EXPECT(threads_of_this_process() == before);
}

TEST_CASE("what is wrong with a call is told when it is handed over, and nothing is sent") {
  ThreadWorld(2).run([](Communicator& communicator) {
    Integers data(4, 1);
    Call call = sum_of(data, data);
    call.count = -1;
    EXPECT(communicator.start(call).error().code == ErrorCode::usage);
    EXPECT(communicator.prepare(call).error().code == ErrorCode::usage);
    EXPECT(communicator.prepare({.operation = Operation::send, .peer = 1}).error().message ==
           "send: only collective operations can be prepared");
    call.count = 4;
    EXPECT(communicator.run(call).has_value());
    EXPECT(data == Integers(4, 2));
  });
}

TEST_CASE("a prepared call reads its memory anew with each run, on the spot or handed over") {
  for (const Operation operation : {Operation::all_reduce, Operation::all_to_all}) {
    for (const Reduction reduction : {Reduction::sum, Reduction::premul_sum}) {
      if (operation == Operation::all_to_all && reduction != Reduction::sum) continue;
      ThreadWorld(2).run([&](Communicator& communicator) {
        Integers input(6);
        Integers output(6);
        const std::int64_t block = operation == Operation::all_to_all ? 3 : 6;
        const auto prepared = communicator.prepare({.operation = operation,
                                                    .input = input.data(),
                                                    .output = output.data(),
                                                    .count = block,
                                                    .type = ElementType::i64,
                                                    .reduction = reduction,
                                                    .factor = 3});
        REQUIRE(prepared.has_value());
        for (int round = 0; round < 20; ++round) {
          std::iota(input.begin(), input.end(), 10 * round + communicator.rank());
          Integers expected(6);
          for (int i = 0; i < 6; ++i) {
            const std::int64_t factor = reduction == Reduction::premul_sum ? 3 : 1;
            expected[static_cast<std::size_t>(i)] =
                operation == Operation::all_reduce ? factor * (2 * (10 * round + i) + 1)
                                                   : 10 * round + i / 3 + 3 * communicator.rank() + i % 3;
          }
          if (round % 2 == 0) {
            EXPECT(communicator.run(**prepared).has_value());
          } else {
            EXPECT(communicator.start(**prepared).value()->wait().has_value());
          }
          EXPECT(output == expected);
        }
      });
    }
  }
}

TEST_CASE("a prepared call that is in flight is not started again, nor on another communicator") {
  std::atomic<bool> go = false;
  ThreadWorld other(1);
  const auto stranger = Communicator::create(other.group(0)).value();
  ThreadWorld(2).run([&](Communicator& communicator) {
    const Integers input{1};
    Integers output{0};
    if (communicator.rank() == 1) go.wait(false);
    const auto prepared = communicator.prepare(sum_of(input, output)).value();
    const auto work = communicator.start(*prepared).value();
    if (communicator.rank() == 0) {
      const std::string_view said = "all_reduce: its last start is not over; wait for it";
      EXPECT(communicator.start(*prepared).error().message == said);
      EXPECT(communicator.run(*prepared).error().message == said);
      EXPECT(stranger->run(*prepared).error().message ==
             "all_reduce: it was prepared for another communicator");
      go = true;
      go.notify_all();
    }
    EXPECT(work->wait().has_value());
  });
}

TEST_CASE("whoever asked is told of a failure once, before the call returns it") {
  std::atomic<int> told = 0;
  CommunicatorOptions options;
  options.on_failure = [&](const Error& error) {
    told += error.code == ErrorCode::aborted && error.peer.rank == 0 ? 1 : 100;
  };
  ThreadWorld(2, options).run([&](Communicator& communicator) {
    if (communicator.rank() == 0) communicator.abort("enough");
    for (int i = 0; i < 3; ++i) EXPECT(!communicator.run({}).has_value());
  });
  EXPECT(told == 2);  // by each rank
}

}  // namespace
}  // namespace diji::collective
