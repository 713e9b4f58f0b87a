// The cases of tests/graphs/*.test: a graph, the passes to run, and the graph that must come out, as text. A
// file holds cases between lines of "====":
//
//     # why this case is here
//     pass simplify              (one or more lines, or "pipeline"; "disable RULE" switches a rule off)
//     graph "g" { … }
//     ----
//     graph "g" { … }            (or "error: " and the sentence)
//
// DIJI_UPDATE=1 writes what comes out into the files; look at the difference before it is committed.
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/catalog.h"
#include "passes/passes.h"

#include "tests/unit/expect.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace diji {
namespace {

constexpr std::string_view kBetweenCases = "====\n";
constexpr std::string_view kBeforeResult = "----\n";

struct Case {
  std::string head;    // comments and directives, as they stand
  std::string before;  // the graph's text
  std::string after;
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

// Lines of `marker` cut the text; each piece keeps its line ends.
std::vector<std::string> cut(std::string_view text, std::string_view marker) {
  std::vector<std::string> pieces = {""};
  for (const std::string_view line : lines_of(text)) {
    if (line == marker.substr(0, marker.size() - 1)) {
      pieces.emplace_back();
    } else {
      pieces.back() += std::string(line) + "\n";
    }
  }
  return pieces;
}

std::vector<Case> read_cases(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::vector<Case> cases;
  for (const std::string& piece : cut(text, kBetweenCases)) {
    const auto halves = cut(piece, kBeforeResult);
    REQUIRE_MESSAGE(halves.size() <= 2, path, ": one ---- a case");
    const std::size_t graph = halves[0].starts_with("graph") ? 0 : halves[0].find("\ngraph") + 1;
    cases.push_back(
        {halves[0].substr(0, graph), halves[0].substr(graph), halves.size() == 2 ? halves[1] : ""});
  }
  return cases;
}

Result<Graph> run_named(Graph graph, std::string_view name, const PassOptions& options) {
  if (name == "pipeline") return run_pipeline(std::move(graph), options);
  const auto found = std::ranges::find(pipeline(), name, &PassEntry::name);
  if (found == pipeline().end()) return fail(ErrorCode::usage, "no pass '{}'", name);
  graph = TRY(run_pass(*found, graph, options));
  if (auto verified = verify(graph); !verified) return std::unexpected(verified.error());
  return graph;
}

Result<std::string> result_of(const Case& one) {
  PassOptions options{.verify_each = true};
  std::vector<std::string_view> passes;
  for (const std::string_view line : lines_of(one.head)) {
    if (line.empty() || line.starts_with("#")) continue;
    if (line.starts_with("pass ")) {
      passes.push_back(line.substr(5));
    } else if (line == "pipeline") {
      passes.push_back(line);
    } else if (line.starts_with("disable ")) {
      const std::string rule(line.substr(8));
      const auto all = rules();
      if (std::ranges::find(all, rule, &PassRule::name) == all.end())
        return fail(ErrorCode::usage, "no rule '{}'", rule);
      options.disabled_rules.insert(rule);
    } else {
      return fail(ErrorCode::usage, "'{}' is no directive", line);
    }
  }
  if (passes.empty()) return fail(ErrorCode::usage, "a case needs a pass");
  Graph graph = TRY(parse(one.before, find_op));
  if (auto verified = verify(graph); !verified) return std::unexpected(verified.error());
  for (const std::string_view name : passes) graph = TRY(run_named(std::move(graph), name, options));
  return print(graph);
}

std::string text_of_result(const Case& one) {
  const auto result = result_of(one);
  return result ? *result : fmt::format("error: {}\n", result.error().message);
}

void check_file(const std::filesystem::path& path) {
  CAPTURE(path);
  const std::vector<Case> cases = read_cases(path);
  std::string updated;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string got = text_of_result(cases[i]);
    updated += fmt::format("{}{}{}{}{}", i == 0 ? "" : kBetweenCases, cases[i].head, cases[i].before,
                           kBeforeResult, got);
    if (std::getenv("DIJI_UPDATE") != nullptr) continue;
    INFO("case ", i + 1, "\n", cases[i].head);
    EXPECT(got == cases[i].after);
  }
  if (std::getenv("DIJI_UPDATE") != nullptr) std::ofstream(path, std::ios::binary) << updated;
}

TEST_CASE("the passes make of every graph in tests/graphs what stands there") {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(DIJI_SOURCE_DIR "/tests/graphs")) {
    if (entry.path().extension() == ".test") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  EXPECT(files.size() >= 6);
  for (const auto& file : files) check_file(file);
}

}  // namespace
}  // namespace diji
