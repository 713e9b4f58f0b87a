// Tables of plans: their text, what is refused in it and where, which row a call falls into, the tuned file.
#include "collective/tuned_file.h"
#include "tests/unit/expect.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>

namespace diji::collective {
namespace {

constexpr std::string_view kText =
    "all_reduce: <=4K exchange; <=1M direct/slices=4; hierarchical; "
    "broadcast narrow world=17.. hosts=2..4: auto; "
    "all_to_all integer world=..16: <=1000 bruck; <=2G pairwise; scan world=8: <=0 chain/slices=16";

TEST_CASE("the text of a table is what its rows are made of again") {
  const auto tuning = parse_tuning(kText, "here");
  REQUIRE(tuning.has_value());
  REQUIRE(tuning->rows.size() == 7);
  EXPECT(tuning->rows[1] == TuningRow{.bytes_max = 1 << 20, .plan = {"direct", 4}});
  EXPECT(tuning->rows[3] == TuningRow{.operation = Operation::broadcast,
                                      .elements = ElementClass::narrow,
                                      .world = {.from = 17},
                                      .hosts = {2, 4},
                                      .plan = {"auto", 0}});
  EXPECT(text_of(*tuning) == kText);
  const auto lines = parse_tuning(
      "# a file\n\nall_reduce:\n <= 4096 exchange   # small\n\t<=1024K direct/slices=4\nhierarchical\n"
      "broadcast  narrow\thosts=2..4 world=17..:auto;all_to_all integer world=1..16: <=1000 bruck;;\n"
      "<=2G pairwise\nscan world=8: <=0 chain/slices=16 ;",
      "here");
  REQUIRE(lines.has_value());
  EXPECT(*lines == *tuning);
  EXPECT(parse_tuning("", "here").value() == Tuning{});
  EXPECT(text_of(Tuning{}).empty());
}

TEST_CASE("what is wrong with a table is named with its place and the nearest word") {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"direct", "here:1:1: an operation comes first"},
      {"all_redcue: direct", "here:1:1: 'all_redcue' is no operation; there are all_reduce"},
      {"all_redcue: direct", "(did you mean all_reduce?)"},
      {"send: direct", "'send' is no operation"},
      {"all_reduce: drect", "here:1:13: all_reduce has no algorithm drect"},
      {"all_reduce: drect", "(did you mean direct?)"},
      {"broadcast: chain\nall_reduce:\n  <=4K exchange;\n  <=4X direct", "here:4:3: '4X' is no size"},
      {"all_reduce: <=9999999999G direct", "is no size"},
      {"all_reduce: <=-1 direct", "is no size"},
      {"all_reduce: <=4K", "names no plan"},
      {"all_reduce:", "here:1:1: a plan is missing after all_reduce"},
      {"scan: chain; all_reduce float:\nscan: direct", "here:1:14: a plan is missing after all_reduce float"},
      {"all_reduce: direct ring", "here:1:20: 'ring' is left over"},
      {"all_reduce: direct/slices=0", "'direct/slices=0' is no plan"},
      {"all_reduce: direct/slices=1025", "is no plan"},
      {"all_reduce: direct/slice=2", "is no plan"},
      {"all_reduce: auto/slices=2", "is no plan"},
      {"all_reduce narow: direct", "here:1:12: 'narow' is no condition"},
      {"all_reduce narow: direct", "(did you mean narrow?)"},
      {"all_reduce word=3: direct", "(did you mean world=?)"},
      {"all_reduce world=: direct", "'world=' is no range"},
      {"all_reduce world=..: direct", "is no range"},
      {"all_reduce world=9..3: direct", "is no range"},
      {"all_reduce hosts=0: direct", "is no range"},
      {"all_reduce hosts=2..x: direct", "is no range; hosts=8"},
      {": direct", "'' is no operation"},
  };
  for (const auto& [text, part] : kCases) {
    CAPTURE(text);
    const auto refused = parse_tuning(text, "here");
    REQUIRE(!refused.has_value());
    EXPECT(refused.error().code == ErrorCode::malformed);
    CAPTURE(refused.error().message);
    EXPECT(refused.error().message.contains(part));
  }
  EXPECT(
      parse_tuning(std::string(kTuningBytesMax + 1, ' '), "here").error().message.contains("32768 at most"));
}

TEST_CASE("tables with letters changed at random are read or refused, and what is read comes back") {
  std::mt19937 random(1);
  constexpr std::string_view kLetters = "abe_<=.;:/#\n 0189KMG";
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text(kText);
    for (unsigned change = 0; change <= random() % 4; ++change)
      text[random() % text.size()] = kLetters[random() % kLetters.size()];
    const auto tuning = parse_tuning(text, "here");
    if (!tuning) continue;
    ++read;
    const auto again = parse_tuning(text_of(*tuning), "here");
    CAPTURE(text);
    REQUIRE(again.has_value());
    EXPECT(*again == *tuning);
  }
  EXPECT(read > 100);
  EXPECT(read < 19'000);
}

TEST_CASE("a row covers its operation, elements, worlds and sizes") {
  const TuningRow row = parse_tuning("reduce narrow world=2..8 hosts=2: <=4K direct", "here")->rows[0];
  const WorldShape shape{.ranks = 4, .hosts = 2, .node_ranks = 2};
  EXPECT(row.covers(Operation::reduce, ElementType::bf16, shape, 4096));
  EXPECT_FALSE(row.covers(Operation::reduce, ElementType::bf16, shape, 4097));
  EXPECT_FALSE(row.covers(Operation::reduce, ElementType::f32, shape, 8));
  EXPECT_FALSE(row.covers(Operation::reduce, ElementType::i8, shape, 8));
  EXPECT_FALSE(row.covers(Operation::scan, ElementType::bf16, shape, 8));
  EXPECT_FALSE(row.covers(Operation::reduce, ElementType::bf16, {.ranks = 4}, 8));
  EXPECT_FALSE(row.covers(Operation::reduce, ElementType::bf16, {.ranks = 16, .hosts = 2}, 8));
  EXPECT(class_of(ElementType::f8e4m3) == ElementClass::narrow);
  EXPECT(class_of(ElementType::f64) == ElementClass::floating);
  EXPECT(class_of(ElementType::boolean) == ElementClass::integer);
}

struct Variable {
  Variable(const char* name, const std::string& value) : name(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  const char* name;
};

TEST_CASE("the table comes from DIJI_TUNING, else from the tuned file of this machine") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("diji-tuning-{}", getpid());
  const Variable cache("DIJI_CACHE_DIR", folder.string());
  const Tuning tuning = parse_tuning(kText, "here").value();
  const std::filesystem::path file = tuned_file();
  EXPECT(file.parent_path() == folder / "collective");
  EXPECT(file.string().contains(DIJI_VERSION));
  EXPECT(file.string().contains(machine_fingerprint()));
  EXPECT(tuning_from_environment().value() == Tuning{});  // there is no such file
  REQUIRE(save_tuning(file, tuning).has_value());
  EXPECT(tuning_from_environment().value() == tuning);
  {
    const Variable off("DIJI_TUNING", "off");
    EXPECT(tuning_from_environment().value() == Tuning{});
  }
  {
    const Variable own("DIJI_TUNING", "scan: chain");
    EXPECT(text_of(tuning_from_environment().value()) == "scan: chain");
  }
  {
    const Variable wrong("DIJI_TUNING", "scan: chian");
    EXPECT(tuning_from_environment().error().code == ErrorCode::usage);
    EXPECT(tuning_from_environment().error().message.starts_with("DIJI_TUNING:1:7: "));
  }
  {
    const Variable other("DIJI_TUNING", "@" + file.string());
    EXPECT(tuning_from_environment().value() == tuning);
    REQUIRE(std::filesystem::remove(file));
    EXPECT(tuning_from_environment().error().code == ErrorCode::not_found);
    std::filesystem::create_directory(file);
    EXPECT_FALSE(tuning_from_environment().has_value());
  }
  EXPECT(tuning_from_environment().value() == Tuning{});  // warned of: nobody asked for that file
  std::filesystem::remove_all(folder);
  const Variable none("DIJI_CACHE_DIR", "off");
  EXPECT(tuned_file().empty());
}

TEST_CASE("one line carries a table or an error from rank 0") {
  const Tuning tuning = parse_tuning(kText, "here").value();
  EXPECT_FALSE(carried(tuning).contains('\n'));
  EXPECT(received(carried(tuning)).value() == tuning);
  EXPECT(received("").value() == Tuning{});
  const auto wrong = received(carried(parse_tuning("scan: chian", "a\nfile")));
  REQUIRE(!wrong.has_value());
  EXPECT(wrong.error().code == ErrorCode::malformed);
  EXPECT(wrong.error().message.starts_with("rank 0: a file:1:7: "));
  for (const std::string_view line : {"!", "!3", "!x y", "!99 y", "!-1 y", "scan: chian"})
    EXPECT(received(line).error().code == ErrorCode::corrupted);
}

}  // namespace
}  // namespace diji::collective
