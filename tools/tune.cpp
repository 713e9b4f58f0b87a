// `diji tune collective`: measures the plans that a call could take, in turns, and keeps what is better.
#include "base/thread_pool.h"
#include "collective/bootstrap.h"
#include "collective/tuned_file.h"
#include "collective/tuner.h"
#include "tools/bench_collective.h"
#include "tools/bench_rows.h"
#include "tools/context.h"
#include "tools/json.h"
#include "tools/launched_ranks.h"
#include "tools/output.h"
#include "tools/table.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

namespace diji::tools {
namespace {

using collective::Call;
using collective::Communicator;
using collective::ElementType;
using collective::Operation;
using collective::PlanChoice;
using collective::PlanWords;
using collective::Tuning;
using collective::TuningRow;
using collective::Winner;

constexpr std::int64_t kWorldMax = 1024;
constexpr int kSizeFactor = 8;

constexpr std::array kOptions = {
    OptionDef{"--sizes", "FROM:TO",
              "sizes of the whole vector, each eight times the one before (default: 8:16M)"},
    OptionDef{"--dtype", "D", "element type (default: f32); its class of types gets the rows"},
    OptionDef{"--world-size", "N", "ranks to start, where no launcher has (default: the cores, 2 to 16)"},
    OptionDef{"--seconds", "S", "time for one size of one operation (default: 0.5)"},
    OptionDef{"--save", "FILE",
              "where the table goes (default: the tuned file of this machine, which later calls take)"},
};

constexpr std::array kUsual = {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                               Operation::broadcast,  Operation::reduce,     Operation::all_to_all};

struct Request {
  std::vector<Operation> operations;
  std::vector<std::int64_t> sizes;
  ElementType type = ElementType::f32;
  double seconds = 0.5;
  std::string file;
};

struct Row {
  Operation operation = Operation::all_reduce;
  std::int64_t bytes = 0;
  std::size_t tried = 0;
  std::string before, after;  ///< plan_id
  double before_us = 0, after_us = 0;
  PlanWords plan;
  bool changed() const { return before != after; }
};

Result<Request> request_of(const Arguments& arguments) {
  Request request;
  const auto& operands = arguments.operands();
  if (operands[0] != "collective") {
    return fail(ErrorCode::usage, "tune: '{}' cannot be tuned; there is collective{}", operands[0],
                did_you_mean(operands[0], std::vector<std::string>{"collective"}));
  }
  std::vector<std::string> names;
  for (const collective::Algorithm& algorithm : collective::algorithms()) {
    if (names.empty() || names.back() != name_of(algorithm.operation))
      names.emplace_back(name_of(algorithm.operation));
  }
  for (const std::string& word : std::span(operands).subspan(1)) {
    if (std::ranges::find(names, word) == names.end())
      return fail(ErrorCode::usage, "tune collective: '{}' is not one of {}{}", word, fmt::join(names, ", "),
                  did_you_mean(word, names));
    request.operations.push_back(*collective::parse_operation(word));
  }
  if (request.operations.empty()) request.operations.assign(kUsual.begin(), kUsual.end());
  request.sizes = TRY(sizes_between(arguments.text("--sizes", "8:16M"), kSizeFactor));
  const std::string dtype = arguments.text("--dtype", "f32");
  const auto type = collective::parse_element_type(dtype);
  if (!type) return fail(ErrorCode::usage, "--dtype: there is no '{}'", dtype);
  request.type = *type;
  request.seconds = TRY(arguments.real("--seconds", 0.5));
  request.file = arguments.text("--save", collective::tuned_file().string());
  if (request.file.empty())
    return fail(ErrorCode::usage,
                "there is no folder for the tuned file (DIJI_CACHE_DIR=off, or no home); --save FILE");
  return request;
}

// What rank 0 could prove, for all.
Result<std::vector<PlanChoice>> proved(Communicator& communicator, const Call& call) {
  const std::vector<PlanChoice> candidates =
      TRY(candidates_for(call, communicator.shape(), communicator.options().tuning.get()));
  std::vector<std::int32_t> verdicts(candidates.size());
  if (communicator.rank() == 0) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const auto proof = prove(call, communicator.shape(), candidates[i]);
      verdicts[i] = proof ? 1 : 0;
      if (!proof) print_aside("diji: tune: left out: {}\n", proof.error().message);
    }
  }
  TRY(communicator.run({.operation = Operation::broadcast,
                        .input = verdicts.data(),
                        .output = verdicts.data(),
                        .count = std::ssize(verdicts),
                        .type = ElementType::i32}));
  std::vector<PlanChoice> plans;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (verdicts[i] != 0)
      plans.push_back(candidates[i]);
    else if (i == 0)
      return fail(ErrorCode::unsupported, "{}: what it takes now cannot be proved here", text_of(call));
  }
  return plans;
}

class Trial {
 public:
  Trial(Communicator& communicator, const Call& call, std::vector<PlanChoice> plans)
      : communicator_(communicator), plans_(std::move(plans)), times_(plans_.size()), out_(plans_.size()) {
    const auto bytes =
        static_cast<std::size_t>(collective::vector_count(call, communicator.world()) * bytes_of(call.type));
    input_.resize(bytes);
    output_.resize(bytes);
    for (const PlanChoice& plan : plans_)
      names_.push_back(text_of(PlanWords{std::string(plan.algorithm->name), plan.slices}));
    call_ = call;
    call_.input = input_.data();
    call_.output = output_.data();
    inner_ = bytes <= 4096 ? 20 : 1;
  }

  // In turns, so that whatever else the machine does meets all. What is three times as slow as the best after
  // some rounds is not asked again.
  Result<void> run(double seconds) {
    constexpr int kRoundsMin = 8;
    constexpr int kRoundsMax = 200;
    constexpr int kRoundsToKnow = 3;
    for (std::size_t i = 0; i < plans_.size(); ++i) TRY(time(i));  // warm
    double spent = 0;
    for (int round = 0; round < kRoundsMax && (round < kRoundsMin || spent < seconds); ++round) {
      for (std::size_t i = 0; i < plans_.size(); ++i) {
        if (out_[i]) continue;
        times_[i].push_back(TRY(time(i)));
        spent += times_[i].back() * inner_;
      }
      if (round + 1 != kRoundsToKnow) continue;
      double best = median(0);
      for (std::size_t i = 0; i < plans_.size(); ++i) best = std::min(best, median(i));
      for (std::size_t i = 1; i < plans_.size(); ++i) out_[i] = median(i) > 3 * best;
    }
    return {};
  }

  double median(std::size_t plan) const { return measured(times_[plan]).median; }
  /// The first plan, where no other is better beyond noise.
  std::size_t best() const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < plans_.size(); ++i) {
      if (!out_[i] && collective::is_better(times_[0], times_[i]) && median(i) < median(best)) best = i;
    }
    return best;
  }
  const PlanChoice& plan(std::size_t i) const { return plans_[i]; }
  std::size_t size() const { return plans_.size(); }

 private:
  // All ranks get the same number, so all decide alike.
  Result<double> time(std::size_t i) {
    call_.algorithm = names_[i];
    TRY(communicator_.run({.operation = Operation::barrier}));
    const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < inner_; ++call) TRY(communicator_.run(call_));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return slowest(communicator_, took.count() / inner_);
  }

  Communicator& communicator_;
  Call call_;
  std::vector<PlanChoice> plans_;
  std::vector<std::string> names_;
  std::vector<std::vector<double>> times_;
  std::vector<char> out_;
  std::vector<std::byte> input_, output_;
  int inner_ = 1;
};

bool same(const PlanChoice& a, const PlanChoice& b) {
  return a.algorithm == b.algorithm && a.slices == b.slices;
}

Result<Row> tune(Communicator& communicator, const Call& call, double seconds) {
  const collective::WorldShape& shape = communicator.shape();
  Trial trial(communicator, call, TRY(proved(communicator, call)));
  TRY(trial.run(seconds));
  const std::size_t best = trial.best();
  const PlanChoice& winner = trial.plan(best);
  Row row{.operation = call.operation,
          .bytes = collective::vector_count(call, shape.ranks) * bytes_of(call.type),
          .tried = trial.size(),
          .before = plan_id(call, shape, trial.plan(0)),
          .after = plan_id(call, shape, winner),
          .before_us = 1e6 * trial.median(0),
          .after_us = 1e6 * trial.median(best)};
  const bool is_built_in = same(winner, TRY(collective::choose(call, shape, nullptr)));
  row.plan =
      is_built_in ? PlanWords{"auto", 0} : PlanWords{std::string(winner.algorithm->name), winner.slices};
  return row;
}

TuningRow group_of(const Communicator& communicator, const Request& request, Operation operation) {
  const collective::WorldShape& shape = communicator.shape();
  return {.operation = operation,
          .elements = collective::reduces(operation) ? collective::class_of(request.type)
                                                     : collective::ElementClass::any,
          .world = {shape.ranks, shape.ranks},
          .hosts = {shape.hosts, shape.hosts},
          .plan = {}};
}

// What the file has of other worlds and operations stays.
Result<Tuning> saved(const Communicator& communicator, const Request& request, const std::vector<Row>& rows) {
  Tuning tuning;
  if (auto old = collective::read_tuning(request.file)) {
    tuning = std::move(*old);
  } else if (old.error().code != ErrorCode::not_found) {
    return std::unexpected(old.error());
  }
  for (const Operation operation : request.operations) {
    std::vector<Winner> winners;
    for (const Row& row : rows) {
      if (row.operation == operation) winners.push_back({row.bytes, row.plan});
    }
    const TuningRow group = group_of(communicator, request, operation);
    tuning = with_rows(std::move(tuning), group, rows_of(group, winners));
  }
  TRY(collective::save_tuning(request.file, tuning));
  return tuning;
}

void print_rows(const std::vector<Row>& rows) {
  Table table({"operation", ">bytes", ">plans", ">before us", ">after us", ">gain", "plan"});
  for (const Row& row : rows) {
    table.add({std::string(name_of(row.operation)), fmt::format("{}", row.bytes),
               fmt::format("{}", row.tried), fmt::format("{:.4g}", row.before_us),
               fmt::format("{:.4g}", row.after_us),
               row.changed() ? fmt::format("{:.2f}x", row.before_us / row.after_us) : "-",
               row.changed() ? fmt::format("{} -> {}", row.before, row.after) : row.before});
  }
  table.print();
}

Json json_of(const Row& row, const Request& request) {
  return {{"operation", std::string(name_of(row.operation))},
          {"size_bytes", row.bytes},
          {"dtype", std::string(name_of(request.type))},
          {"plans", row.tried},
          {"before", {{"plan", row.before}, {"time_us", row.before_us}}},
          {"after", {{"plan", row.after}, {"time_us", row.after_us}}},
          {"changed", row.changed()}};
}

Result<int> tune_ranks(const Request& request, bool json) {
  const auto communicator = TRY(collective::communicator_of_job());
  std::vector<Row> rows;
  for (const Operation operation : request.operations) {
    for (const std::int64_t size : request.sizes) {
      const Call call = sized({.operation = operation, .type = request.type}, size, communicator->world());
      rows.push_back(TRY(tune(*communicator, call, request.seconds)));
      if (operation == Operation::barrier) break;
    }
  }
  if (communicator->rank() != 0) return 0;
  const Tuning tuning = TRY(saved(*communicator, request, rows));
  if (json) {
    Json all = Json::array();
    for (const Row& row : rows) all.push_back(json_of(row, request));
    print_json(
        {{"machine",
          {{"ranks", communicator->world()}, {"hosts", communicator->shape().hosts}, {"diji", DIJI_VERSION}}},
         {"rows", std::move(all)},
         {"file", request.file},
         {"tuning", text_of(tuning)}});
    return 0;
  }
  print_rows(rows);
  print("{}: {}\n", request.file,
        tuning.rows.empty() ? "nothing is better than the built-in plans" : text_of(tuning));
  if (std::getenv("DIJI_TUNING") != nullptr)
    print_aside("diji: tune: DIJI_TUNING is set; while it is, it stands in place of the tuned file\n");
  return 0;
}

Result<int> run(Context& context, const Arguments& arguments) {
  const Request request = TRY(request_of(arguments));
  const std::int64_t ranks =
      TRY(arguments.integer("--world-size", std::clamp(usable_cores(), 2, 16), 2, kWorldMax));
  const collective::Identity identity = TRY(collective::identity_from(collective::variable));
  if (identity.world > 1) {
    if (arguments.has("--world-size"))
      return fail(ErrorCode::usage, "--world-size: the launcher has started {} ranks", identity.world);
    return tune_ranks(request, context.json());
  }
  LaunchOptions options;
  options.ranks = static_cast<int>(ranks);
  options.command = {"/proc/self/exe", "tune"};
  options.command.insert(options.command.end(), arguments.operands().begin(), arguments.operands().end());
  for (const char* name : {"--sizes", "--dtype", "--seconds", "--save"}) {
    if (!arguments.has(name)) continue;
    options.command.emplace_back(name);
    options.command.push_back(arguments.text(name, ""));
  }
  if (context.json()) options.command.emplace_back("--json");
  const auto job = TRY(LaunchedRanks::start(options));
  return job->wait();
}

}  // namespace

constexpr Verb kTuneVerb = {
    .name = "tune",
    .summary = "measure which plans of collectives are best here, and keep them for later calls",
    .example = "tune collective all_reduce --sizes 8:512K --save plans.txt",
    .operands = {"collective [OPERATION...]", "which operations (default: the six that are most used)", 1,
                 Operands::kAnyCount},
    .options = kOptions,
    .shared_options = {},
    .run = run,
};

}  // namespace diji::tools
