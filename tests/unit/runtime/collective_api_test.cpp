// collective.h on a world of one and on ranks of processes: misuse is an error with a sentence.
#include "diji/collective.h"

#include "tests/unit/expect.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

std::string_view message() { return diji_error_message(); }

struct Alone {
  Alone() { REQUIRE(diji_comm_create(nullptr, &comm) == DIJI_STATUS_OK); }
  ~Alone() { diji_comm_free(comm); }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  diji_comm* comm = nullptr;
};

TEST_CASE("a process that nobody launched is a world of one") {
  const Alone alone;
  EXPECT(diji_comm_rank(alone.comm) == 0);
  EXPECT(diji_comm_world(alone.comm) == 1);
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(3);
  EXPECT(diji_all_reduce(alone.comm, x.data(), y.data(), 3, DIJI_F32, DIJI_REDUCE_SUM) == DIJI_STATUS_OK);
  EXPECT(y == x);
  EXPECT(diji_barrier(alone.comm) == DIJI_STATUS_OK);
  EXPECT(diji_broadcast(alone.comm, y.data(), 3, DIJI_F32, 0) == DIJI_STATUS_OK);
  EXPECT(diji_all_to_all(alone.comm, x.data(), y.data(), 3, DIJI_F32) == DIJI_STATUS_OK);
  EXPECT(diji_send(alone.comm, x.data(), 3, DIJI_F32, 0) == DIJI_STATUS_USAGE);
  EXPECT(message() == "send: peer 0 of 1 ranks, of which this is 0");
}

TEST_CASE("works, prepared calls, and what becomes of handles") {
  const Alone alone;
  std::vector<std::int32_t> x{1, 2};
  std::vector<std::int32_t> y(2);
  const diji_call call{.struct_size = sizeof(diji_call),
                       .operation = DIJI_ALL_REDUCE,
                       .input = x.data(),
                       .output = y.data(),
                       .count = 2,
                       .dtype = DIJI_I32,
                       .reduction = DIJI_REDUCE_PREMUL_SUM,
                       .factor = 3};
  diji_work* work = nullptr;
  REQUIRE(diji_start(alone.comm, &call, 1, &work) == DIJI_STATUS_OK);
  EXPECT(diji_work_wait(work, -1) == DIJI_STATUS_OK);
  EXPECT(diji_work_wait(work, INT64_MAX) == DIJI_STATUS_OK);
  EXPECT(diji_work_done(work) == 1);
  EXPECT(y == std::vector<std::int32_t>{3, 6});
  diji_work_free(work);

  diji_prepared* prepared = nullptr;
  REQUIRE(diji_prepare(alone.comm, &call, &prepared) == DIJI_STATUS_OK);
  x = {5, 7};
  EXPECT(diji_prepared_run(prepared) == DIJI_STATUS_OK);
  EXPECT(y == std::vector<std::int32_t>{15, 21});
  REQUIRE(diji_prepared_start(prepared, &work) == DIJI_STATUS_OK);
  EXPECT(diji_work_wait(work, -1) == DIJI_STATUS_OK);
  diji_work_free(work);
  diji_prepared_free(prepared);

  diji_comm* copy = nullptr;
  EXPECT(diji_comm_dup(alone.comm, &copy) == DIJI_STATUS_OK);
  diji_comm_free(copy);
  EXPECT(diji_comm_split(alone.comm, -1, 0, &copy) == DIJI_STATUS_OK);
  EXPECT(copy == nullptr);
}

TEST_CASE("memory that peers read in place may outlive its communicator") {
  diji_memory* memory = nullptr;
  {
    const Alone alone;
    EXPECT(diji_comm_allocate(alone.comm, 0, &memory) == DIJI_STATUS_USAGE);
    REQUIRE(diji_comm_allocate(alone.comm, 12, &memory) == DIJI_STATUS_OK);
    auto* x = static_cast<float*>(diji_memory_data(memory));
    x[2] = 5;
    EXPECT(diji_all_reduce(alone.comm, x, x, 3, DIJI_F32, DIJI_REDUCE_SUM) == DIJI_STATUS_OK);
  }
  EXPECT(static_cast<float*>(diji_memory_data(memory))[2] == 5);
  diji_memory_free(memory);
  diji_memory_free(nullptr);
  EXPECT(diji_memory_data(nullptr) == nullptr);
}

TEST_CASE("what is wrong with a call is told") {
  const Alone alone;
  float x = 1;
  float y = 0;
  diji_call call{.struct_size = sizeof(diji_call), .operation = DIJI_ALL_REDUCE, .input = &x, .output = &y};
  const auto refused = [&](std::string_view sentence) {
    EXPECT(diji_run(alone.comm, &call, 1) == DIJI_STATUS_USAGE);
    EXPECT(message() == sentence);
    EXPECT(std::string_view(diji_error_code()) == "usage");
    EXPECT(diji_error_rank() == -1);
  };
  call.struct_size = 8;
  refused("diji_call: struct_size is too small");
  call.struct_size = sizeof(diji_call);
  call.operation = static_cast<diji_operation>(13);
  refused("diji_call: 13 is no operation");
  call.operation = DIJI_ALL_REDUCE;
  call.reduction = static_cast<diji_reduction>(12);
  refused("diji_call: 12 is no reduction");
  call.reduction = DIJI_REDUCE_BAND;
  call.dtype = static_cast<diji_dtype>(15);
  refused("diji_call: 15 is no dtype");
  call.dtype = DIJI_F32;
  call.timeout_us = -1;
  refused("diji_call: a time below 0");
  call.timeout_us = 0;
  call.count = 1;
  EXPECT(diji_run(alone.comm, &call, 1) == DIJI_STATUS_USAGE);
  EXPECT(message().contains("band"));
  EXPECT(diji_comm_shrink(alone.comm, -1, nullptr) == DIJI_STATUS_USAGE);
  diji_comm* rest = nullptr;
  EXPECT(diji_comm_shrink(alone.comm, -1, &rest) == DIJI_STATUS_USAGE);
  EXPECT(message() == "diji_comm_shrink: a time below 0");
  const std::int64_t most = INT64_MAX;
  const diji_call gather{.struct_size = sizeof(diji_call),
                         .operation = DIJI_ALL_GATHER,
                         .input = &x,
                         .output = &y,
                         .counts = &most};
  EXPECT(diji_run(alone.comm, &gather, 1) == DIJI_STATUS_USAGE);
  EXPECT(message().contains("counts of rank 0 is 9223372036854775807; from 0 to "));
  EXPECT(diji_run(nullptr, &call, 1) == DIJI_STATUS_USAGE);
  EXPECT(diji_start(alone.comm, &call, 1, nullptr) == DIJI_STATUS_USAGE);
  EXPECT(diji_comm_create(nullptr, nullptr) == DIJI_STATUS_USAGE);
  EXPECT(diji_work_done(nullptr) == 0);
  EXPECT(diji_comm_world(nullptr) == -1);
  diji_comm_free(nullptr);
  diji_work_free(nullptr);
}

TEST_CASE("an abort ends the communicator, and the callback is told why") {
  int told = 0;
  const diji_comm_options options{.struct_size = sizeof(diji_comm_options),
                                  .on_failure =
                                      [](void* context, const char* why) {
                                        *static_cast<int*>(context) +=
                                            std::string_view(why).contains("enough");
                                      },
                                  .context = &told};
  diji_comm* comm = nullptr;
  REQUIRE(diji_comm_create(&options, &comm) == DIJI_STATUS_OK);
  diji_comm_abort(comm, "enough");
  EXPECT(diji_barrier(comm) == DIJI_STATUS_DEADLINE);
  EXPECT(std::string_view(diji_error_code()) == "aborted");
  EXPECT(diji_error_rank() == 0);
  EXPECT(diji_error_sequence() == 0);
  EXPECT(diji_barrier(comm) == DIJI_STATUS_DEADLINE);
  EXPECT(told == 1);
  diji_comm_free(comm);
}

struct InWorldOfTwo {  // as rank 0, whom nobody calls
  InWorldOfTwo() {
    setenv("DIJI_RANK", "0", 1);
    setenv("DIJI_WORLD_SIZE", "2", 1);
    setenv("DIJI_RENDEZVOUS", "127.0.0.1:0", 1);
  }
  ~InWorldOfTwo() {
    for (const char* name : {"DIJI_RANK", "DIJI_WORLD_SIZE", "DIJI_RENDEZVOUS"}) unsetenv(name);
  }
};

TEST_CASE("the start ends after the time-out of the options") {
  const InWorldOfTwo alone;
  const diji_comm_options options{.struct_size = sizeof(diji_comm_options), .timeout_us = 200'000};
  const auto begin = std::chrono::steady_clock::now();
  diji_comm* comm = nullptr;
  EXPECT(diji_comm_create(&options, &comm) == DIJI_STATUS_DEADLINE);
  EXPECT(message().contains("rank 1 never arrived"));
  EXPECT(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));  // DIJI_TIMEOUT is 120
  EXPECT(comm == nullptr);
}

TEST_CASE("a communicator may be made on a thread of its own, or given up") {
  diji_creation* creation = nullptr;
  REQUIRE(diji_comm_start_create(nullptr, &creation) == DIJI_STATUS_OK);
  diji_comm* comm = nullptr;
  EXPECT(diji_creation_wait(creation, &comm) == DIJI_STATUS_OK);
  EXPECT(diji_comm_world(comm) == 1);
  diji_comm_free(comm);
  REQUIRE(diji_comm_start_create(nullptr, &creation) == DIJI_STATUS_OK);
  diji_creation_free(creation);
}

}  // namespace
