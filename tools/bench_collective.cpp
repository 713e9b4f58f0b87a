// The loop of the MPI program that peers are measured with: barrier, some calls, the slowest rank's mean.
#include "tools/bench_collective.h"

#include "base/host_tensor.h"
#include "collective/bootstrap.h"
#include "collective/host_links.h"
#include "tools/bench_rows.h"
#include "tools/collective_check.h"
#include "tools/output.h"
#include "tools/price_collective.h"
#include "tools/table.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>

namespace diji::tools {
namespace {

using collective::Call;
using collective::Communicator;
using collective::ElementType;
using collective::Operation;
using collective::Reduction;

constexpr std::int64_t kBytesMax = std::int64_t{1} << 40;
constexpr int kIterationsMax = 400;
constexpr int kIterationsMin = 5;

struct Request {
  Call call;
  std::vector<std::int64_t> sizes;
  bool in_place = false;
  bool registered = false;
  bool check = false;
  std::int64_t warmup = 5;
  std::int64_t iterations = 0;  ///< 0: as many as the seconds allow
  double seconds = 0.25;
};

struct Row {
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  std::string algorithm;
  std::string plan;  ///< plan_id
  std::string transport;
  bool process_vm = false;  ///< peers may read this rank's private memory in place
  double time_us = 0;
  double algbw_gbps = 0;
  double busbw_gbps = 0;
  std::int64_t wrong = -1;  ///< not checked
};

Result<std::vector<std::int64_t>> sizes_of(const Arguments& arguments) {
  if (arguments.has("--bytes")) {
    if (arguments.has("--sizes")) return fail(ErrorCode::usage, "--bytes and --sizes are two answers");
    return std::vector{static_cast<std::int64_t>(TRY(arguments.bytes("--bytes", 8)))};
  }
  return sizes_between(arguments.text("--sizes", "8:64M"), 2);
}

Result<Request> request_of(const Arguments& arguments, std::string_view operation) {
  Request request;
  std::vector<std::string> names;
  for (int i = 0; i < collective::kOperationCount; ++i) {
    const auto one = static_cast<Operation>(i);
    if (one != Operation::send && one != Operation::receive) names.emplace_back(name_of(one));
  }
  if (std::ranges::find(names, operation) == names.end()) {
    return fail(ErrorCode::usage, "bench collective: '{}' is not one of {}{}", operation,
                fmt::join(names, ", "), did_you_mean(operation, names));
  }
  request.call.operation = *collective::parse_operation(operation);
  const std::string dtype = arguments.text("--dtype", "f32");
  const auto type = collective::parse_element_type(dtype);
  if (!type) return fail(ErrorCode::usage, "--dtype: there is no '{}'", dtype);
  request.call.type = *type;
  const std::string redop = arguments.text("--redop", "sum");
  const auto reduction = collective::parse_reduction(redop);
  if (!reduction)
    return fail(
        ErrorCode::usage,
        "--redop: there is no '{}'; sum, avg, prod, min, max, premul-sum, band, bor, bxor, land, lor, lxor",
        redop);
  request.call.reduction = *reduction;
  if (arguments.has("--check") && (*type == ElementType::f8e4m3 || *type == ElementType::f8e5m2 ||
                                   *reduction == Reduction::average || *reduction == Reduction::premul_sum)) {
    return fail(ErrorCode::usage, "--check knows no reference for {} of {}", redop, dtype);
  }
  request.call.root = static_cast<int>(TRY(arguments.integer("--root", 0, 0, 1 << 20)));
  request.call.exact = arguments.has("--exact");
  request.in_place = arguments.has("--in-place");
  request.registered = arguments.has("--registered");
  request.check = arguments.has("--check");
  request.warmup = TRY(arguments.integer("--warmup", 5, 0, 1'000'000));
  request.iterations = TRY(arguments.integer("--iters", 0, 1, 100'000'000));
  request.seconds = TRY(arguments.real("--seconds", 0.25));
  request.sizes =
      request.call.operation == Operation::barrier ? std::vector<std::int64_t>{0} : TRY(sizes_of(arguments));
  return request;
}

// Prices instead of times: an option about measuring is a mistake.
Result<int> simulate(const Arguments& arguments, const Request& request, bool json) {
  for (const char* option : {"--check", "--in-place", "--registered", "--warmup", "--iters", "--seconds"}) {
    if (arguments.has(option))
      return fail(ErrorCode::usage, "--simulate measures nothing: {} has no meaning with it", option);
  }
  return price_collective({.call = request.call,
                           .sizes = request.sizes,
                           .world = arguments.text("--simulate", ""),
                           .topology = arguments.text("--topology", "")},
                          json);
}

// What an ideal link carries for one byte of the vector (as NCCL's tests count).
double bus_factor(Operation operation, int world) {
  const double share = static_cast<double>(world - 1) / world;
  switch (operation) {
    case Operation::all_reduce: return 2 * share;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
    case Operation::gather:
    case Operation::scatter: return share;
    default: return 1;
  }
}

// Private (malloc) memory, or what peers read in place; zeros either way.
struct Buffer {
  std::vector<std::byte> here;
  collective::Allocation registered;
  std::byte* data() { return registered.data() != nullptr ? registered.data() : here.data(); }
};
Result<Buffer> buffer_of(Communicator& communicator, std::int64_t bytes, bool registered) {
  Buffer buffer;
  if (registered && bytes > 0) {
    buffer.registered = TRY(communicator.allocate(bytes));
  } else {
    buffer.here.resize(static_cast<std::size_t>(bytes));
  }
  return buffer;
}

Result<Row> measure(Communicator& communicator, const Request& request, std::int64_t bytes) {
  using Clock = std::chrono::steady_clock;
  const int world = communicator.world();
  Call call = sized(request.call, bytes, world);
  const std::int64_t width = bytes_of(call.type);
  const std::int64_t total = collective::vector_count(call, world);
  Buffer input = TRY(buffer_of(communicator, total * width, request.registered));
  Buffer output = TRY(
      buffer_of(communicator, request.in_place && !request.check ? 0 : total * width, request.registered));
  call.input = input.data();
  call.output = request.in_place ? input.data() : output.data();
  if (request.in_place && call.operation == Operation::all_gather)
    call.input = input.data() + communicator.rank() * call.count * width;
  if (request.in_place && call.operation == Operation::reduce_scatter)
    call.output = input.data() + communicator.rank() * call.count * width;
  Row row{.bytes = total * width, .count = call.count};
  const collective::PlanChoice choice = TRY(communicator.plan_of(call));
  row.algorithm = choice.algorithm->name;
  row.plan = plan_id(call, communicator.shape(), choice);
  row.transport = communicator.transports();
  for (std::int64_t i = 0; i < request.warmup; ++i) TRY(communicator.run(call));
  const int inner = bytes <= 4096 ? 20 : 1;
  std::vector<double> times;
  double spent = 0;
  while (request.iterations > 0 ? std::ssize(times) < request.iterations
                                : std::ssize(times) < kIterationsMax &&
                                      (spent < request.seconds || std::ssize(times) < kIterationsMin)) {
    TRY(communicator.run({.operation = Operation::barrier}));
    const auto begin = Clock::now();
    for (int i = 0; i < inner; ++i) TRY(communicator.run(call));
    const double mean = std::chrono::duration<double>(Clock::now() - begin).count() / inner;
    times.push_back(TRY(slowest(communicator, mean)));
    spent += times.back() * inner;
  }
  row.process_vm = communicator.private_memory_is_read();
  if (request.check) row.wrong = TRY(count_wrong(communicator, call, input.data(), output.data()));
  row.time_us = 1e6 * measured(times).median;
  row.algbw_gbps = static_cast<double>(row.bytes) / row.time_us / 1e3;
  row.busbw_gbps = row.algbw_gbps * bus_factor(call.operation, world);
  return row;
}

Json json_of(const Row& row, const Request& request) {
  return {{"name", fmt::format("{}_{}", name_of(request.call.operation), row.bytes)},
          {"value", row.time_us},
          {"unit", "us"},
          {"operation", std::string(name_of(request.call.operation))},
          {"algorithm", row.algorithm},
          {"plan", row.plan},
          {"transport", row.transport},
          {"process_vm", row.process_vm},
          {"size_bytes", row.bytes},
          {"count", row.count},
          {"dtype", std::string(name_of(request.call.type))},
          {"redop", std::string(name_of(request.call.reduction))},
          {"root", request.call.root},
          {"in_place", request.in_place},
          {"registered", request.registered},
          {"time_us", row.time_us},
          {"algbw_gbps", row.algbw_gbps},
          {"busbw_gbps", row.busbw_gbps},
          {"wrong", row.wrong < 0 ? Json() : Json(row.wrong)}};
}

Json json_of_machine(const Communicator& communicator) {
  return {{"ranks", communicator.world()},
          {"hosts", communicator.group().hosts()},
          {"transport", communicator.transports()},
          {"launcher", communicator.group().wires->launcher},
          {"diji", DIJI_VERSION}};
}

}  // namespace

Result<std::vector<std::int64_t>> sizes_between(const std::string& text, int factor) {
  const std::size_t colon = text.find(':');
  const auto number = [](std::string_view word) -> std::int64_t {
    constexpr std::string_view kSuffixes = "KMG";
    std::int64_t value = 0;
    std::size_t at = 0;
    for (; at < word.size() && word[at] >= '0' && word[at] <= '9' && value < kBytesMax; ++at)
      value = value * 10 + (word[at] - '0');
    const std::size_t suffix = at + 1 == word.size() ? kSuffixes.find(word[at]) : std::string_view::npos;
    if (at == 0 || (at != word.size() && suffix == std::string_view::npos)) return -1;
    return at == word.size() ? value : value << (10 * (suffix + 1));
  };
  const std::int64_t from = number(std::string_view(text).substr(0, colon));
  const std::int64_t to =
      colon == std::string::npos ? from : number(std::string_view(text).substr(colon + 1));
  if (from < 1 || to < from || to > kBytesMax)
    return fail(ErrorCode::usage, "--sizes: '{}' is not FROM:TO such as 8:64M", text);
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = from; size <= to; size *= factor) sizes.push_back(size);
  return sizes;
}

Call sized(Call call, std::int64_t bytes, int world) {
  const std::int64_t width = bytes_of(call.type);
  call.count = 1;
  const std::int64_t blocks = collective::vector_count(call, world);
  call.count = blocks > 1 ? std::max<std::int64_t>(bytes / width / blocks, 1) : bytes / width;
  return call;
}

Result<double> slowest(Communicator& communicator, double seconds) {
  double all = 0;
  TRY(communicator.run({.operation = Operation::all_reduce,
                        .input = &seconds,
                        .output = &all,
                        .count = 1,
                        .type = ElementType::f64,
                        .reduction = Reduction::max}));
  return all;
}

Result<int> bench_collective(const Arguments& arguments, std::span<const std::string> operands, bool json) {
  if (operands.size() != 1)
    return fail(ErrorCode::usage, "bench collective needs one operation, such as all_reduce");
  Request request = TRY(request_of(arguments, operands[0]));
  const std::string algorithm = arguments.text("--algorithm", "");
  request.call.algorithm = algorithm;
  if (arguments.has("--simulate")) return simulate(arguments, request, json);
  if (arguments.has("--topology")) return fail(ErrorCode::usage, "--topology is of --simulate");
  const auto communicator = TRY(collective::communicator_of_job());
  const bool speaks = communicator->rank() == 0;
  if (communicator->world() == 1)
    print_aside("bench collective: one rank alone; start several with diji launch -n N\n");
  Json rows = Json::array();
  if (speaks && !json)
    print("{:>12} {:>12} {:>20} {:>10} {:>30} {:>12} {:>12} {:>12} {:>6}\n", "bytes", "count", "algorithm",
          "transport", "plan", "time us", "algbw GB/s", "busbw GB/s", "wrong");
  for (const std::int64_t bytes : request.sizes) {
    const Row row = TRY(measure(*communicator, request, bytes));
    rows.push_back(json_of(row, request));
    if (speaks && !json) {
      print("{:>12} {:>12} {:>20} {:>10} {:>30} {:>12.2f} {:>12.3f} {:>12.3f} {:>6}\n", row.bytes, row.count,
            row.algorithm, row.transport, row.plan, row.time_us, row.algbw_gbps, row.busbw_gbps,
            row.wrong < 0 ? "-" : fmt::format("{}", row.wrong));
    }
  }
  std::int64_t wrong = 0;
  for (const Json& row : rows) wrong += row["wrong"].is_null() ? 0 : row["wrong"].get<std::int64_t>();
  if (speaks && json) print_json({{"machine", json_of_machine(*communicator)}, {"rows", rows}});
  if (wrong > 0 && speaks) print_aside("diji: bench collective: {} elements are wrong\n", wrong);
  return wrong > 0 ? kAnswerIsNo : 0;
}

}  // namespace diji::tools
