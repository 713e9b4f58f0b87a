// Rules of streams and events: what comes first is done first, and whoever waited sees it.
#include "runtime/rule_bench.h"

#include <array>

namespace diji {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;  // long enough that a copy is still under way when the call returns

}  // namespace

Result<void> sync_waits(RuleBench& bench) {
  const auto stream = TRY(bench.stream());
  const auto a = TRY(bench.alloc(kBytes)), b = TRY(bench.alloc(kBytes));
  const auto got = bench.host(kBytes, 9);
  TRY(bench.upload(stream, {a, 0}, bench.host(kBytes, 1)));
  TRY(bench.copy(stream, {b, 0}, {a, 0}, kBytes));
  TRY(bench.download(stream, got, {b, 0}));
  TRY(bench.sync(stream));
  return same_bytes(got, bench.host(kBytes, 1), "after stream_sync");
}

namespace {

/// Work on one stream without a wait in between: each step needs the one before it.
Result<void> in_order(RuleBench& bench) {
  constexpr unsigned kSteps = 20;
  const auto stream = TRY(bench.stream());
  const auto a = TRY(bench.alloc(kBytes)), b = TRY(bench.alloc(kBytes));
  std::vector<std::span<std::byte>> got;
  for (unsigned i = 0; i < kSteps; ++i) {
    TRY(bench.upload(stream, {a, 0}, bench.host(kBytes, i)));
    TRY(bench.copy(stream, {b, 0}, {a, 0}, kBytes));
    got.push_back(bench.host(kBytes, 99));
    TRY(bench.download(stream, got.back(), {b, 0}));
  }
  TRY(bench.sync(stream));
  for (unsigned i = 0; i < kSteps; ++i)
    TRY(same_bytes(got[i], bench.host(kBytes, i), fmt::format("step {} of one stream", i)));
  return {};
}

Result<void> event_wait(RuleBench& bench) {
  const auto event = TRY(bench.event());
  const auto first = TRY(bench.stream()), second = TRY(bench.stream());
  const auto a = TRY(bench.alloc(kBytes)), b = TRY(bench.alloc(kBytes));
  const auto got = bench.host(kBytes, 9);
  TRY(bench.upload(first, {a, 0}, bench.host(kBytes, 1)));
  TRY(bench.sync(first));
  TRY(bench.upload(first, {a, 0}, bench.host(kBytes, 2)));
  TRY(bench.copy(first, {b, 0}, {a, 0}, kBytes));
  TRY(bench.ok(bench.table().event_record(event, first), "event_record"));
  TRY(bench.ok(bench.table().event_wait(event, second), "event_wait"));
  TRY(bench.download(second, got, {b, 0}));
  TRY(bench.sync(second));
  TRY(same_bytes(got, bench.host(kBytes, 2), "a stream that waited for another one's event"));
  return bench.sync(first);
}

Result<void> event_sync(RuleBench& bench) {
  const auto event = TRY(bench.event());
  const auto stream = TRY(bench.stream());
  const auto a = TRY(bench.alloc(kBytes));
  const auto got = bench.host(kBytes, 9);
  TRY(bench.upload(stream, {a, 0}, bench.host(kBytes, 3)));
  TRY(bench.download(stream, got, {a, 0}));
  TRY(bench.ok(bench.table().event_record(event, stream), "event_record"));
  TRY(bench.ok(bench.table().event_sync(event), "event_sync"));
  TRY(same_bytes(got, bench.host(kBytes, 3), "after event_sync"));
  return bench.sync(stream);
}

Result<void> event_times(RuleBench& bench) {
  const auto stream = TRY(bench.stream());
  const auto a = TRY(bench.alloc(kBytes));
  const std::array events = {TRY(bench.event()), TRY(bench.event()), TRY(bench.event())};
  for (diji_event* event : events) {
    TRY(bench.ok(bench.table().event_record(event, stream), "event_record"));
    TRY(bench.upload(stream, {a, 0}, bench.host(kBytes, 1)));
  }
  TRY(bench.sync(stream));
  std::array<std::uint64_t, 3> ns{};
  TRY(bench.ok(bench.table().event_elapsed_ns(events[0], events[1], &ns[0]), "event_elapsed_ns"));
  TRY(bench.ok(bench.table().event_elapsed_ns(events[1], events[2], &ns[1]), "event_elapsed_ns"));
  TRY(bench.ok(bench.table().event_elapsed_ns(events[0], events[2], &ns[2]), "event_elapsed_ns"));
  if (ns[0] > 0 && ns[1] > 0 && ns[0] + ns[1] == ns[2]) return {};
  return fail(ErrorCode::failed, "events {} and {} ns apart, but {} ns from the first to the last", ns[0],
              ns[1], ns[2]);
}

/// Freed on a stream with work: the work still has it, also when somebody else allocates as much.
Result<void> free_in_order(RuleBench& bench) {
  const auto stream = TRY(bench.stream()), other = TRY(bench.stream());
  const auto a = TRY(bench.alloc(kBytes));
  const auto got = bench.host(kBytes, 9);
  TRY(bench.upload(stream, {a, 0}, bench.host(kBytes, 4)));
  TRY(bench.sync(stream));
  TRY(bench.download(stream, got, {a, 0}));
  bench.free(a, stream);
  const auto b = TRY(bench.alloc(kBytes));
  TRY(bench.upload(other, {b, 0}, bench.host(kBytes, 5)));
  TRY(bench.sync(other));
  TRY(bench.sync(stream));
  return same_bytes(got, bench.host(kBytes, 4), "a buffer freed behind its last use");
}

/// What waits may be waited for by stream_free alone.
Result<void> free_waits(RuleBench& bench) {
  const auto a = TRY(bench.alloc(kBytes));
  const auto got = bench.host(kBytes, 9);
  diji_stream* stream = nullptr;
  TRY(bench.ok(bench.table().stream_new(bench.device(), &stream), "stream_new"));
  const auto queued = [&]() -> Result<void> {
    TRY(bench.upload(stream, {a, 0}, bench.host(kBytes, 8)));
    return bench.download(stream, got, {a, 0});
  }();
  bench.table().stream_free(stream);
  TRY(Result<void>(queued));
  return same_bytes(got, bench.host(kBytes, 8), "after stream_free");
}

}  // namespace

std::span<const Rule> stream_rules() {
  static constexpr std::array kRules = {
      Rule{"stream_free waits", free_waits},
      Rule{"a stream's work is in order", in_order},
      Rule{"event_wait orders two streams", event_wait},
      Rule{"event_sync waits", event_sync},
      Rule{"times between events add up", event_times},
      Rule{"free waits for the stream's work", free_in_order},
  };
  return kRules;
}

}  // namespace diji
