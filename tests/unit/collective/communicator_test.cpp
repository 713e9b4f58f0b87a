// Every operation on ranks as threads against its definition, and what a failing rank does to the others.
#include "collective/communicator.h"

#include "tests/unit/collective/cases_of_threads.h"

namespace diji::collective {
namespace {

TEST_CASE("every operation, type and reduction gives what its definition says") {
  for (const int world : {1, 2, 3, 5, 8}) {
    ThreadWorld ranks(world);
    expect_none(problems_of(ranks, call_cases(world)));
  }
}

TEST_CASE("every algorithm gives what its operation's definition says") {
  for (const int world : {2, 3, 6, 8}) {
    std::vector<CallCase> cases;
    for (const Algorithm& algorithm : algorithms()) {
      const PlanRequest request{.operation = algorithm.operation, .world = world};
      if (!algorithm.supports(request)) continue;
      for (const ElementType type :
           {ElementType::f32, ElementType::bf16, ElementType::i32, ElementType::f8e4m3}) {
        // The longest has blocks of several slices that are not of one length.
        for (const std::int64_t count : {0, 1, 5, 999, 40'001, 1'200'021}) {
          if (count > 1000 && type != ElementType::f32) continue;
          if (count > 1'000'000 && world != 3) continue;
          for (const Reduction reduction : {Reduction::sum, Reduction::average}) {
            if (!reduces(algorithm.operation) && reduction != Reduction::sum) continue;
            CallCase c{
                .operation = algorithm.operation, .type = type, .reduction = reduction, .count = count};
            c.algorithm = algorithm.name;
            c.root = has_root(c.operation) ? static_cast<int>(count) % world : 0;
            c.in_place = cases.size() % 2 == 0;
            c.ragged = !algorithm.equal_counts && cases.size() % 3 == 0 &&
                       (c.operation == Operation::all_gather || c.operation == Operation::reduce_scatter);
            cases.push_back(c);
          }
        }
      }
    }
    ThreadWorld ranks(world);
    expect_none(problems_of(ranks, cases));
  }
}

TEST_CASE("exact mode is the left fold in rank order, of reals too") {
  for (int world = 1; world <= 16; ++world) {
    std::vector<CallCase> cases;
    for (const Operation operation :
         {Operation::all_reduce, Operation::reduce_scatter, Operation::reduce, Operation::scan}) {
      for (const ElementType type :
           {ElementType::f64, ElementType::f32, ElementType::f16, ElementType::bf16}) {
        for (const Reduction reduction : {Reduction::sum, Reduction::average, Reduction::product}) {
          cases.push_back({.operation = operation,
                           .type = type,
                           .reduction = reduction,
                           .count = 101,
                           .exact = true,
                           .reals = true});
        }
      }
    }
    ThreadWorld ranks(world);
    expect_none(problems_of(ranks, cases));
  }
}

TEST_CASE("a group of sends and receives exchanges large messages both ways; single ones pass a ring") {
  constexpr std::int64_t kCount = 300'000;
  ThreadWorld(3).run([&](Communicator& communicator) {
    const int rank = communicator.rank();
    const int next = (rank + 1) % 3;
    const int before = (rank + 2) % 3;
    std::vector<std::int32_t> to_next(kCount, rank * 10 + 1);
    std::vector<std::int32_t> to_before(kCount, rank * 10 + 2);
    std::vector<std::int32_t> from_before(kCount);
    std::vector<std::int32_t> from_next(kCount);
    const auto call = [&](Operation operation, std::vector<std::int32_t>& data, int peer) {
      return Call{.operation = operation,
                  .input = data.data(),
                  .output = data.data(),
                  .count = kCount,
                  .type = ElementType::i32,
                  .peer = peer};
    };
    const Call calls[] = {call(Operation::send, to_next, next), call(Operation::send, to_before, before),
                          call(Operation::receive, from_before, before),
                          call(Operation::receive, from_next, next)};
    EXPECT(communicator.run_group(calls).has_value());
    EXPECT(from_before == std::vector<std::int32_t>(kCount, before * 10 + 1));
    EXPECT(from_next == std::vector<std::int32_t>(kCount, next * 10 + 2));
    std::int32_t token = rank == 0 ? 7 : 0;
    const auto pass = [&](Operation operation, int peer) {
      return communicator.run({.operation = operation,
                               .input = &token,
                               .output = &token,
                               .count = 1,
                               .type = ElementType::i32,
                               .peer = peer});
    };
    if (rank > 0) EXPECT(pass(Operation::receive, before).has_value());
    EXPECT(pass(Operation::send, next).has_value());
    if (rank == 0) EXPECT(pass(Operation::receive, before).has_value());
    EXPECT(token == 7);
    EXPECT(pass(Operation::send, rank).error().code == ErrorCode::usage);
  });
}

}  // namespace
}  // namespace diji::collective
