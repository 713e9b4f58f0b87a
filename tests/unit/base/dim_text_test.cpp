// The text form: how it looks, that it comes back, and where errors point.
#include "base/dim.h"

#include "base/dim_expression.h"
#include "tests/unit/expect.h"

#include <limits>
#include <string>

namespace diji {
namespace {

using Known = std::map<std::string, Bounds, std::less<>>;

const Known& known() {
  static const Known symbols = {{"H", {}}, {"W", {}}, {"N", {}}, {"batch size", {}}, {"_a.b1", {}}};
  return symbols;
}

std::string error_of(std::string_view text) {
  const auto parsed = Dim::parse(text, known());
  return parsed ? "" : parsed.error().message;
}

void expect_round_trip(const Dim& dim, std::string_view text) {
  CAPTURE(dim.text());
  EXPECT(dim.text() == text);
  const auto parsed = Dim::parse(dim.text(), dim.symbols());
  REQUIRE(parsed);
  EXPECT(*parsed == dim);
}

TEST_CASE("expressions print as people write them and parse back") {
  const Dim h = Dim::symbol("H");
  const Dim w = Dim::symbol("W");
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  expect_round_trip(2 * h * w + floor_div(h + 1, 2), "2*H*W + (H + 1) floordiv 2");
  expect_round_trip(0, "0");
  expect_round_trip(-3, "-3");
  expect_round_trip(kMin, "-9223372036854775808");
  expect_round_trip(h + kMin, "H + -9223372036854775808");
  expect_round_trip(kMin * h + w, "-9223372036854775808*H + W");
  expect_round_trip(1 - h, "-H + 1");
  expect_round_trip(h * h - w - 4, "H*H - W - 4");
  expect_round_trip(mod(h, 4), "H mod 4");
  expect_round_trip(-1 * mod(h, 4), "-(H mod 4)");
  expect_round_trip(w - mod(h, 4), "W - H mod 4");
  expect_round_trip(3 * mod(h, 4) * floor_div(w, 2), "3*(W floordiv 2)*(H mod 4)");
  expect_round_trip(floor_div(min(h, w), max(h, 3)), "min(H, W) floordiv max(H, 3)");
  expect_round_trip(floor_div(5, h + 1), "5 floordiv (H + 1)");
  expect_round_trip(mod(floor_div(h, 2), 3), "(H floordiv 2) mod 3");
  expect_round_trip(min(min(h, w), 9), "min(H, W, 9)");
  expect_round_trip(select_less(h, w, 3, w), "select(H < W, 3, W)");
}

TEST_CASE("names that are no identifiers are quoted") {
  expect_round_trip(Dim::symbol("unk__214"), "unk__214");
  expect_round_trip(Dim::symbol("batch size") + 1, "\"batch size\" + 1");
  expect_round_trip(Dim::symbol("sequence_length + 1") * 2, "2*\"sequence_length + 1\"");
  expect_round_trip(Dim::symbol("min"), "\"min\"");
  expect_round_trip(Dim::symbol("mod"), "\"mod\"");
  expect_round_trip(Dim::symbol("1"), "\"1\"");
  expect_round_trip(Dim::symbol(""), "\"\"");
  expect_round_trip(Dim::symbol("a\"b\\c\n"), "\"a\\\"b\\\\c\\x0a\"");
  expect_round_trip(Dim::symbol(std::string_view("a\0b", 3)), "\"a\\x00b\"");
  expect_round_trip(Dim::symbol("größe"), "\"größe\"");
  expect_round_trip(Dim::symbol("x.y_1"), "x.y_1");
}

TEST_CASE("parsing follows Python's precedence") {
  const Dim h = Dim::symbol("H");
  const Dim w = Dim::symbol("W");
  EXPECT(Dim::parse("2*H floordiv 3", known()) == floor_div(2 * h, 3));
  EXPECT(Dim::parse("H floordiv 3*W", known()) == floor_div(h, 3) * w);
  EXPECT(Dim::parse("W - H floordiv 3", known()) == w - floor_div(h, 3));
  EXPECT(Dim::parse("-H floordiv 2", known()) == floor_div(-1 * h, 2));
  EXPECT(Dim::parse(" - - H\t+\n(3) ", known()) == h + 3);
  EXPECT(Dim::parse("max(H)", known()) == h);
  EXPECT(Dim::parse("\"H\"+_a.b1", known()) == h + Dim::symbol("_a.b1"));
  EXPECT(Dim::parse("select(W<H,1,2)", known()) == select_less(w, h, 1, 2));
}

TEST_CASE("errors name the column and the way out") {
  EXPECT(error_of("H + Ww") ==
         "size expression 'H + Ww': column 5: symbol 'Ww' is not known; did you mean 'W'?");
  EXPECT(error_of("") == "size expression '': column 1: expected a number, a symbol, a function or '('");
  EXPECT(error_of("H W") == "size expression 'H W': column 3: expected an operator or the end");
  EXPECT(error_of("(H + 1") == "size expression '(H + 1': column 7: expected ')'");
  EXPECT(error_of("min(H, ") ==
         "size expression 'min(H, ': column 8: expected a number, a symbol, a function or '('");
  EXPECT(error_of("select(H, 1, 2)") == "size expression 'select(H, 1, 2)': column 9: expected '<'");
  EXPECT(error_of("H mod 0") == "size expression 'H mod 0': column 3: division by zero");
  EXPECT(error_of("floordiv 2").ends_with("column 1: expected a number, a symbol, a function or '('"));
  EXPECT(error_of("9223372036854775808").ends_with("column 1: the number does not fit 64 bits"));
  EXPECT(error_of("99999999999999999999999").ends_with("column 1: the number does not fit 64 bits"));
  EXPECT(error_of("H*9223372036854775807 + H")
             .ends_with("column 23: the arithmetic does not fit 64 bits or grows "
                        "without limit"));
  EXPECT(error_of("\"batch size").ends_with("column 1: the quotation mark is not closed"));
  EXPECT(error_of("\"a\\q\"").find("column 3: expected \\\"") != std::string::npos);
  EXPECT(error_of("\"a\\x1\"").find("column 3: expected \\\"") != std::string::npos);
  EXPECT(error_of("\"a\\").find("column 3: expected \\\"") != std::string::npos);
  EXPECT(error_of("<invalid>").find("column 1") != std::string::npos);
  EXPECT(Dim::parse("H +", known()).error().code == ErrorCode::malformed);
}

TEST_CASE("nesting has a limit, and the deepest expression still prints and parses") {
  const std::string brackets(100'000, '(');
  EXPECT(error_of(brackets + "H").find("nested too deep") != std::string::npos);
  EXPECT(error_of("min(" + brackets).find("nested too deep") != std::string::npos);
  EXPECT(Dim::parse(std::string(100'000, '-') + "H", known()) == Dim::symbol("H"));
  const Dim h = Dim::symbol("H");
  Dim deep = h;
  for (int i = 0; i < kDimDepthMax; ++i) deep = -1 * floor_div(7 * h, deep * h + 1) + 1;
  REQUIRE(deep.is_valid());
  const auto parsed = Dim::parse(deep.text(), known());
  REQUIRE(parsed);
  EXPECT(*parsed == deep);
  EXPECT_FALSE(floor_div(7 * h, deep + 1).is_valid());
}

}  // namespace
}  // namespace diji
