// The text form of a Dim, printed and parsed: what graph files, error sentences and people use.
//
//   sum    := term { ("+" | "-") term }
//   term   := factor { ("*" | "floordiv" | "mod") factor }           left to right, as Python's * // %
//   factor := { "-" } ( number | symbol | "(" sum ")" | ("min" | "max") "(" sum { "," sum } ")"
//                     | "select" "(" sum "<" sum "," sum "," sum ")" )
//   symbol := [A-Za-z_][A-Za-z0-9_.]* except the five words above | '"' any bytes with escapes '"'
#include "base/dim_expression.h"
#include "base/nearest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace diji {
namespace {

using Expression = Dim::Expression;

// A printed expression opens at most two brackets a level: ((a + b) floordiv 2)*c.
constexpr int kNestingMax = 2 * kDimDepthMax + 8;

constexpr std::array<std::string_view, 5> kWords = {"floordiv", "mod", "min", "max", "select"};

bool is_name_start(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_plain_name(std::string_view name) {
  return !name.empty() && is_name_start(name[0]) && std::ranges::all_of(name, is_name_part) &&
         std::ranges::find(kWords, name) == kWords.end();
}

std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string text_of(const Atom& atom);

std::string text_of_term(std::uint64_t magnitude, const Monomial& atoms) {
  if (atoms.empty()) return std::to_string(magnitude);
  if (magnitude == 1 && atoms.size() == 1) return text_of(*atoms[0]);
  std::string text = magnitude == 1 ? "" : std::to_string(magnitude);
  for (const AtomPointer& atom : atoms) {
    const bool infix = atom->kind == AtomKind::floordiv || atom->kind == AtomKind::mod;
    if (!text.empty()) text += '*';
    text += infix ? fmt::format("({})", text_of(*atom)) : text_of(*atom);
  }
  return text;
}

void append_term(std::string& text, std::int64_t coefficient, const Monomial& atoms) {
  const bool first = text.empty();
  const bool negative = coefficient < 0;
  const auto bits = static_cast<std::uint64_t>(coefficient);
  std::string term = text_of_term(negative ? 0 - bits : bits, atoms);
  if (first) {
    // A minus binds to the factor behind it: -x floordiv 2 would be (-x) floordiv 2.
    const bool infix = coefficient == -1 && atoms.size() == 1 &&
                       (atoms[0]->kind == AtomKind::floordiv || atoms[0]->kind == AtomKind::mod);
    text += negative && infix ? fmt::format("-({})", term) : fmt::format("{}{}", negative ? "-" : "", term);
  } else if (coefficient == std::numeric_limits<std::int64_t>::min()) {
    text += " + -" + term;  // its magnitude alone is not an int64
  } else {
    text += (negative ? " - " : " + ") + term;
  }
}

std::string text_of_operand(const Dim& dim) {
  const Atom* atom = Expression::of(dim).bare_atom();
  const bool infix = atom != nullptr && (atom->kind == AtomKind::floordiv || atom->kind == AtomKind::mod);
  const bool alone = (atom != nullptr && !infix) || dim.constant().value_or(-1) >= 0;
  return alone ? dim.text() : fmt::format("({})", dim.text());
}

std::string text_of(const Atom& atom) {
  const auto operand = [&](std::size_t i) { return atom.operands[i].text(); };
  switch (atom.kind) {
    case AtomKind::symbol: return is_plain_name(atom.name) ? atom.name : quoted(atom.name);
    case AtomKind::floordiv:
    case AtomKind::mod:
      return fmt::format("{} {} {}", text_of_operand(atom.operands[0]),
                         atom.kind == AtomKind::mod ? "mod" : "floordiv", text_of_operand(atom.operands[1]));
    case AtomKind::select:
      return fmt::format("select({} < {}, {}, {})", operand(0), operand(1), operand(2), operand(3));
    case AtomKind::min:
    case AtomKind::max: break;
  }
  std::string text = operand(0);
  for (std::size_t i = 1; i < atom.operands.size(); ++i) text += ", " + operand(i);
  return fmt::format("{}({})", atom.kind == AtomKind::min ? "min" : "max", text);
}

using KnownSymbols = std::map<std::string, Bounds, std::less<>>;

/// Recursive descent over the grammar above; values are canonical at every step.
class Parser {
 public:
  Parser(std::string_view text, const KnownSymbols& known) : text_(text), known_(known) {}

  Result<Dim> whole() {
    Dim value = TRY(sum());
    if (at_ < text_.size()) return fail_at(at_, "expected an operator or the end");
    return value;
  }

 private:
  std::unexpected<Error> fail_at(std::size_t position, std::string_view sentence) const {
    return fail(ErrorCode::malformed, "size expression '{}': column {}: {}", text_, position + 1, sentence);
  }

  Result<Dim> checked(Dim value, std::size_t position) const {
    if (value.is_valid()) return value;
    return fail_at(position, "the arithmetic does not fit 64 bits or grows without limit");
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result<void> expect(char c) {
    if (accept(c)) return {};
    return fail_at(at_, fmt::format("expected '{}'", c));
  }

  std::string_view peek_name() {
    skip_space();
    std::size_t end = at_;
    if (end < text_.size() && is_name_start(text_[end])) {
      while (end < text_.size() && is_name_part(text_[end])) ++end;
    }
    return text_.substr(at_, end - at_);
  }

  bool accept_word(std::string_view word) {
    if (peek_name() != word) return false;
    at_ += word.size();
    return true;
  }

  Result<Dim> sum() {
    if (++nesting_ > kNestingMax) return fail_at(at_, "brackets are nested too deep");
    Dim value = TRY(term());
    while (true) {
      skip_space();
      const std::size_t position = at_;
      const bool adds = accept('+');
      if (!adds && !accept('-')) break;
      const Dim next = TRY(term());
      value = TRY(checked(adds ? value + next : value - next, position));
    }
    --nesting_;
    return value;
  }

  Result<Dim> term() {
    Dim value = TRY(factor());
    while (true) {
      skip_space();
      const std::size_t position = at_;
      const bool divides = accept_word("floordiv");
      if (divides || accept_word("mod")) {
        const Dim divisor = TRY(factor());
        if (divisor.is(0)) return fail_at(position, "division by zero");
        value = TRY(checked(divides ? floor_div(value, divisor) : mod(value, divisor), position));
      } else if (accept('*')) {
        const Dim next = TRY(factor());
        value = TRY(checked(value * next, position));
      } else {
        return value;
      }
    }
  }

  Result<Dim> factor() {
    bool negative = false;
    while (accept('-')) negative = !negative;
    skip_space();
    const std::size_t position = at_;
    if (at_ < text_.size() && is_digit(text_[at_])) return number(negative);
    const Dim value = TRY(unsigned_factor());
    return negative ? checked(Dim(0) - value, position) : value;
  }

  Result<Dim> number(bool negative) {
    std::uint64_t magnitude = 0;
    const char* begin = text_.data() + at_;
    const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), magnitude);
    const auto limit =
        static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) + (negative ? 1 : 0);
    if (code != std::errc() || magnitude > limit) return fail_at(at_, "the number does not fit 64 bits");
    at_ += static_cast<std::size_t>(end - begin);
    return Dim(static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude));
  }

  Result<Dim> unsigned_factor() {
    if (accept('(')) {
      const Dim value = TRY(sum());
      TRY(expect(')'));
      return value;
    }
    const std::size_t position = at_;
    if (accept_word("min")) return extremum(/*smallest=*/true, position);
    if (accept_word("max")) return extremum(/*smallest=*/false, position);
    if (accept_word("select")) return select(position);
    if (at_ < text_.size() && text_[at_] == '"') {
      const std::string name = TRY(quoted_name());
      return symbol(name, position);
    }
    const std::string_view name = peek_name();
    if (name.empty() || name == "floordiv" || name == "mod") {
      return fail_at(at_, "expected a number, a symbol, a function or '('");
    }
    at_ += name.size();
    return symbol(name, position);
  }

  Result<Dim> extremum(bool smallest, std::size_t position) {
    TRY(expect('('));
    Dim value = TRY(sum());
    while (accept(',')) {
      const Dim next = TRY(sum());
      value = TRY(checked(smallest ? min(value, next) : max(value, next), position));
    }
    TRY(expect(')'));
    return value;
  }

  Result<Dim> select(std::size_t position) {
    TRY(expect('('));
    const Dim a = TRY(sum());
    TRY(expect('<'));
    const Dim b = TRY(sum());
    TRY(expect(','));
    const Dim then = TRY(sum());
    TRY(expect(','));
    const Dim otherwise = TRY(sum());
    TRY(expect(')'));
    return checked(select_less(a, b, then, otherwise), position);
  }

  Result<std::string> quoted_name() {
    const std::size_t start = at_++;
    std::string name;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        name += text_[at_];
        continue;
      }
      const std::string_view escape = text_.substr(at_ + 1, 3);
      unsigned value = 0;
      if (escape.starts_with('"') || escape.starts_with('\\')) {
        name += escape[0];
        at_ += 1;
      } else if (escape.size() == 3 && escape[0] == 'x' &&
                 std::from_chars(escape.data() + 1, escape.data() + 3, value, 16).ptr == escape.data() + 3) {
        name += static_cast<char>(value);
        at_ += 3;
      } else {
        return fail_at(at_, "expected \\\", \\\\ or \\x and two hexadecimal digits");
      }
    }
    if (at_ == text_.size()) return fail_at(start, "the quotation mark is not closed");
    ++at_;
    return name;
  }

  Result<Dim> symbol(std::string_view name, std::size_t position) const {
    const auto found = known_.find(name);
    if (found != known_.end()) return checked(Dim::symbol(name, found->second), position);
    std::vector<std::string> names;
    for (const auto& [known, bounds] : known_) names.push_back(known);
    const std::string nearest = nearest_name(name, names);
    const std::string hint = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
    return fail_at(position, fmt::format("symbol '{}' is not known{}", name, hint));
  }

  std::string_view text_;
  const KnownSymbols& known_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace

std::string Dim::text() const {
  if (!is_valid()) return "<invalid>";
  std::string text;
  for (const Term& term : expression_->terms) append_term(text, term.coefficient, term.atoms);
  if (expression_->constant != 0 || text.empty()) append_term(text, expression_->constant, {});
  return text;
}

Result<Dim> Dim::parse(std::string_view text, const std::map<std::string, Bounds, std::less<>>& known) {
  return Parser(text, known).whole();
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (const Dim& size : shape) text += (text.empty() ? "" : ", ") + size.text();
  return fmt::format("[{}]", text);
}

}  // namespace diji
