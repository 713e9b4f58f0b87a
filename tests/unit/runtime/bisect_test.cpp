// Planted faults, of a rule and of a kernel: the search names them, and which application or node.
#include "runtime/bisect.h"

#include "ops/samples.h"
#include "plugins/cpu/cpu_plugin.h"
#include "runtime/conformance.h"
#include "tests/unit/runtime/fixture.h"

#include <array>

namespace diji {
namespace {

// Five additions and a difference, each named.
Graph chain() {
  return test::graph_from(R"(graph "chain" {
    symbol N in [0, 1099511627776]
    input %x "x" : f32[N]
    input %w "w" : f32[N]
    %a = add(%x, %w) "first" : f32[N]
    %b = add(%a, %w) "second" : f32[N]
    %c = add(%b, %w) "third" : f32[N]
    %d = mul(%c, %w) "scaled" : f32[N]
    %e = sub(%d, %x) "less" : f32[N]
    %f = add(%e, %w) "fourth" : f32[N]
    %g = add(%f, %w) "fifth" : f32[N]
    output "y" = %g
  })");
}

std::map<std::string, HostTensor> inputs() {
  return {{"x", sample_tensor(DType::f32, {100}, Fill::normal, 1)},
          {"w", sample_tensor(DType::f32, {100}, Fill::normal, 2)}};
}

// a + b = a - ((b - b) - b), exactly where they are finite; not so for nodes whose name begins with `First`.
template <char First>
std::optional<ValueId> subtract_negative(Builder& b, Primitive primitive, const Node& node,
                                         const Values& inputs) {
  if (primitive != Primitive::add) return std::nullopt;
  if (node.name.starts_with(First)) return b.subtract(inputs[0], inputs[1]);
  return b.subtract(inputs[0], b.subtract(b.subtract(inputs[1], inputs[1]), inputs[1]));
}
// Another node, wrong in another way.
std::optional<ValueId> only_fourth(Builder& b, Primitive primitive, const Node& node, const Values& inputs) {
  if (primitive != Primitive::add || node.name != "fourth") return std::nullopt;
  return b.multiply(inputs[0], inputs[1]);
}

bool is_right(const std::vector<HostTensor>& got) {
  const auto wanted = interpret_by_name(chain(), Arithmetic::oracle, inputs());
  REQUIRE(wanted.has_value());
  return compare_with_tolerance(got[0], (*wanted)[0], 1e-4, 1e-5).ok;
}

// Opens the chain on a device of this table.
BisectTrial trial_on(const diji_device_plugin_table* table, int* trials = nullptr) {
  return [table, trials](const PassOptions& options) -> Result<bool> {
    if (trials != nullptr) ++*trials;
    DeviceList devices(std::array{table}, 1);
    const auto session = TRY(Session::of(devices, chain(), {.device = table->name, .passes = options}));
    return is_right(TRY(session->run(inputs())));
  };
}

constexpr PassRule kWrongThird = {"wrong_third", "simplify", "planted", subtract_negative<'t'>};

TEST_CASE("a wrong rule is found, and which of its applications") {
  const test::ScratchCache cache;
  int trials = 0;
  const BisectTrial trial = trial_on(diji_plugin_cpu(), &trials);
  EXPECT(trial({}).value());
  const PassOptions options{.more_rules = {kWrongThird}};
  EXPECT_FALSE(trial(options).value());
  trials = 0;
  const GuiltyRules guilty = find_guilty_rules(options, trial);
  REQUIRE(guilty.rules.size() == 1);
  EXPECT(guilty.rules[0].rule == "wrong_third");
  EXPECT(guilty.rules[0].pass == "simplify");
  EXPECT(guilty.rules[0].application == 3);
  EXPECT(guilty.rules[0].applications == 5);
  EXPECT(guilty.rules[0].operators == std::vector<std::string>{"third (add)"});
  EXPECT(guilty.trials == trials);
  EXPECT(trials < 20);
}

TEST_CASE("two wrong rules are found, each with its application") {
  const test::ScratchCache cache;
  PassRule fourth = {"wrong_fourth", "simplify", "planted", only_fourth};
  const PassOptions options{.more_rules = {fourth, kWrongThird}};
  const GuiltyRules guilty = find_guilty_rules(options, trial_on(diji_plugin_cpu()));
  REQUIRE(guilty.rules.size() == 2);
  EXPECT(guilty.rules[0].rule == "wrong_fourth");
  EXPECT(guilty.rules[0].operators == std::vector<std::string>{"fourth (add)"});
  EXPECT(guilty.rules[0].application == 1);
  EXPECT(guilty.rules[1].rule == "wrong_third");
  EXPECT(guilty.rules[1].operators == std::vector<std::string>{"third (add)"});
  EXPECT(guilty.rules[1].application == 3);
}

TEST_CASE("what is switched off already stays off and is not blamed") {
  const test::ScratchCache cache;
  PassRule fourth = {"wrong_fourth", "simplify", "planted", only_fourth};
  const PassOptions options{.disabled_rules = {"wrong_fourth"}, .more_rules = {fourth, kWrongThird}};
  const GuiltyRules guilty = find_guilty_rules(options, trial_on(diji_plugin_cpu()));
  REQUIRE(guilty.rules.size() == 1);
  EXPECT(guilty.rules[0].rule == "wrong_third");
}

// The CPU, whose compiler adds where it should subtract: in every kernel, or in those that multiply too.
template <bool OnlyWithProducts>
diji_status subtracts_wrongly(diji_device* device, const diji_kernel_text* text, const void** blob,
                              std::size_t* bytes) {
  std::string changed(static_cast<const char*>(text->text), text->text_bytes);
  if (!OnlyWithProducts || changed.find(" fmul ") != std::string::npos) {
    for (std::size_t at = 0; (at = changed.find(" fsub ", at)) != std::string::npos; ++at)
      changed.replace(at, 6, " fadd ");
  }
  diji_kernel_text other = *text;
  other.text = changed.data();
  other.text_bytes = changed.size();
  return diji_plugin_cpu()->compile(device, &other, blob, bytes);
}

template <bool OnlyWithProducts>
diji_device_plugin_table faulty() {
  diji_device_plugin_table table = *diji_plugin_cpu();
  table.name = "faulty";
  table.compile = subtracts_wrongly<OnlyWithProducts>;
  return table;
}

TEST_CASE("a kernel that is wrong when fused is blamed on the join that made it") {
  const test::ScratchCache cache;
  const diji_device_plugin_table table = faulty<true>();
  const BisectTrial trial = trial_on(&table);
  EXPECT_FALSE(trial({}).value());
  const GuiltyRules guilty = find_guilty_rules({}, trial);
  REQUIRE(guilty.rules.size() == 1);
  EXPECT(guilty.rules[0].rule == "fuse_elementwise");
  EXPECT(guilty.rules[0].pass == "fuse");
  REQUIRE(guilty.rules[0].operators.size() == 2);
  EXPECT(guilty.rules[0].operators[0] == "scaled (multiply)");
}

TEST_CASE("a wrong kernel is found where no rule is guilty, and its node named") {
  const test::ScratchCache cache;
  const diji_device_plugin_table table = faulty<false>();
  EXPECT(find_guilty_rules({}, trial_on(&table)).rules.empty());
  PassOptions none;
  for (const PassRule& rule : rules()) none.disabled_rules.emplace(rule.name);
  const auto first_wrong = [&](const diji_device_plugin_table* on) {
    DeviceList devices(std::array{on}, 1);
    const auto session = Session::of(devices, chain(), {.device = on->name, .passes = none});
    REQUIRE(session.has_value());
    auto wrong = find_wrong_kernel(**session, inputs());
    REQUIRE(wrong.has_value());
    return *wrong;
  };
  EXPECT_FALSE(first_wrong(diji_plugin_cpu()).has_value());
  const auto wrong = first_wrong(&table);
  REQUIRE(wrong.has_value());
  EXPECT(wrong->operators == "subtract");
  EXPECT(wrong->nodes == std::vector<std::string>{"less (subtract)"});
  EXPECT(wrong->problem.find("proven bound") != std::string::npos);
}

}  // namespace
}  // namespace diji
