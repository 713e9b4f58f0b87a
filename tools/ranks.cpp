// `diji ranks`: what the ranks of a running job are doing.
#include "collective/call.h"
#include "collective/inspect.h"
#include "tools/context.h"
#include "tools/json.h"
#include "tools/output.h"

#include <array>
#include <charconv>

namespace diji::tools {
namespace {

using collective::CallRecord;
using collective::CommunicatorStatus;
using collective::RankStatus;

constexpr std::array kOptions = {
    OptionDef{"--dump", "", "the last calls of every rank, not the latest alone"},
};

std::string_view name_of_state(collective::Board::State state) {
  switch (state) {
    case collective::Board::kAbsent: return "absent";
    case collective::Board::kPresent: return "present";
    case collective::Board::kFinished: return "finished";
    case collective::Board::kDead: return "dead";
  }
  return "unknown";
}

Json json_of_call(const CallRecord& call) {
  return {{"seq", call.sequence},
          {"operation", std::string(collective::name_of(call.operation))},
          {"dtype", std::string(collective::name_of(call.type))},
          {"redop", std::string(collective::name_of(call.reduction))},
          {"root", call.root < 0 ? Json() : Json(call.root)},
          {"count", call.count},
          {"begin_us", call.begin_us},
          {"end_us", call.end_us == 0 ? Json() : Json(call.end_us)},
          {"waits_for", call.waits_for < 0 || call.end_us != 0 ? Json() : Json(call.waits_for)}};
}

Json json_of_rank(const RankStatus& rank, bool dump) {
  Json calls = Json::array();
  const std::size_t first = dump || rank.calls.empty() ? 0 : rank.calls.size() - 1;
  for (std::size_t i = first; i < rank.calls.size(); ++i) calls.push_back(json_of_call(rank.calls[i]));
  return {{"rank", rank.rank},
          {"pid", rank.pid},
          {"state", std::string(name_of_state(rank.state))},
          {"silent_s", rank.silent_s},
          {"calls", calls}};
}

void print_text(const CommunicatorStatus& status, bool dump) {
  print("communicator {:016x}, {} ranks here\n", status.id, status.ranks.size());
  if (status.failure) print("  failed: {}\n", status.failure->message);
  for (const RankStatus& rank : status.ranks) {
    print("  rank {} (pid {}): {}\n", rank.rank, rank.pid, collective::text_of(rank));
    for (std::size_t i = 0; dump && i < rank.calls.size(); ++i) {
      const CallRecord& call = rank.calls[i];
      const double took_us = static_cast<double>(call.end_us - call.begin_us);
      print("    #{} {}{}\n", call.sequence, collective::text_of(call),
            call.end_us == 0 ? ", running" : fmt::format(", {} us", took_us));
    }
  }
}

Result<int> run(Context& context, const Arguments& arguments) {
  const std::string& word = arguments.operands()[0];
  int pid = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), pid);
  if (problem != std::errc() || end != word.data() + word.size() || pid < 1) {
    return fail(ErrorCode::usage, "'{}' is no process id", word);
  }
  const bool dump = arguments.has("--dump");
  Json document = Json::array();
  for (const auto& segment : TRY(collective::segments_of_process(pid))) {
    const CommunicatorStatus status = collective::status_of(*segment);
    Json ranks = Json::array();
    for (const RankStatus& rank : status.ranks) ranks.push_back(json_of_rank(rank, dump));
    document.push_back({{"id", fmt::format("{:016x}", status.id)},
                        {"failure", status.failure ? Json(status.failure->message) : Json()},
                        {"ranks", ranks}});
    if (!context.json()) print_text(status, dump);
  }
  if (context.json()) print_json({{"communicators", document}});
  return 0;
}

}  // namespace

constexpr Verb kRanksVerb = {
    .name = "ranks",
    .summary = "what the ranks of a running job are doing: last operations, who waits for whom",
    .example = "ranks 4242 --dump",
    .operands = {"PID", "the process of any rank of the job", 1, 1},
    .options = kOptions,
    .run = run,
};

}  // namespace diji::tools
