// A table of tuned plans: which row a call falls into, and the text of rows.
#include "collective/tuning.h"

#include "base/nearest.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace diji::collective {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr std::string_view kSlices = "slices=";
constexpr std::string_view kBlanks = " \t\r";
constexpr std::array kClasses = {ElementClass::floating, ElementClass::narrow, ElementClass::integer};

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return text.substr(text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

template <typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size();
}

// "64K"; -1: it is no size.
std::int64_t parse_size(std::string_view text) {
  constexpr std::string_view kUnits = "KMG";
  const std::size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  if (unit != std::string_view::npos) text.remove_suffix(1);
  const int shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  std::int64_t size = 0;
  if (!parse_number(text, size) || size < 0 || size > (TuningRow::kAnySize - 1) >> shift) return -1;
  return size << shift;
}

std::string size_text(std::int64_t bytes) {
  std::size_t unit = 0;
  for (; bytes > 0 && bytes % 1024 == 0 && unit < 3; ++unit) bytes /= 1024;
  return fmt::format("{}{}", bytes,
                     std::string_view("KMG").substr(unit == 0 ? 3 : unit - 1, unit == 0 ? 0 : 1));
}

std::string range_text(std::string_view name, const CountRange& range) {
  if (range == CountRange{}) return "";
  if (range.from == range.to) return fmt::format(" {}={}", name, range.from);
  return fmt::format(" {}={}..{}", name, range.from == 1 ? "" : fmt::format("{}", range.from),
                     range.to == CountRange::kMost ? "" : fmt::format("{}", range.to));
}

bool parse_range(std::string_view text, CountRange& range) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos)
    return parse_number(text, range.from) && range.from >= 1 && (range.to = range.from) >= 1;
  const std::string_view from = text.substr(0, dots);
  const std::string_view to = text.substr(dots + 2);
  if (from.empty() && to.empty()) return false;
  if (!from.empty() && !parse_number(from, range.from)) return false;
  if (!to.empty() && !parse_number(to, range.to)) return false;
  return range.from >= 1 && range.from <= range.to;
}

std::string nearest_of(std::string_view word, const std::vector<std::string>& words) {
  const std::string nearest = nearest_name(word, words);
  return fmt::format("{}{}", fmt::join(words, ", "),
                     nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kOperationCount; ++i) {
    const auto operation = static_cast<Operation>(i);
    if (!is_point_to_point(operation)) names.emplace_back(name_of(operation));
  }
  return names;
}

// Words are views into the text: where they stand in it is their place.
class Parser {
 public:
  Parser(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  Result<Tuning> parse() {
    if (text_.size() > kTuningBytesMax)
      return fail(ErrorCode::malformed, "{}: {} bytes are no table of plans; {} at most", source_,
                  text_.size(), kTuningBytesMax);
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      std::string_view line = text_.substr(at, end - at);
      line = line.substr(0, line.find('#'));
      TRY(parse_line(line));
      at = end + 1;
    }
    TRY(check_header());
    return std::move(tuning_);
  }

 private:
  std::unexpected<Error> wrong(std::string_view word, std::string_view what) const {
    const auto at = static_cast<std::size_t>(word.data() - text_.data());
    const std::string_view before = text_.substr(0, at);
    const auto line = 1 + std::ranges::count(before, '\n');
    const std::size_t column = at - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    return fail(ErrorCode::malformed, "{}:{}:{}: {}", source_, line, column, what);
  }

  Result<void> parse_line(std::string_view line) {
    while (true) {
      const std::size_t end = line.find(';');
      std::string_view entry = trimmed(line.substr(0, end));
      if (const std::size_t colon = entry.find(':'); colon != std::string_view::npos) {
        TRY(parse_header(trimmed(entry.substr(0, colon))));
        entry = trimmed(entry.substr(colon + 1));
      }
      if (!entry.empty()) TRY(parse_row(entry));
      if (end == std::string_view::npos) return {};
      line.remove_prefix(end + 1);
    }
  }

  static std::string_view next_word(std::string_view& rest) {
    rest = trimmed(rest);
    const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
    rest.remove_prefix(word.size());
    return word;
  }

  Result<void> check_header() const {
    if (header_.empty()) return {};
    return wrong(header_, fmt::format("a plan is missing after {}, such as direct", header_));
  }

  Result<void> parse_header(std::string_view rest) {
    TRY(check_header());
    group_ = {};
    has_group_ = true;
    header_ = rest;
    const std::string_view name = next_word(rest);
    const auto operation = parse_operation(name);
    if (!operation || is_point_to_point(*operation)) {
      return wrong(
          name, fmt::format("'{}' is no operation; there are {}", name, nearest_of(name, operation_names())));
    }
    group_.operation = *operation;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest))
      TRY(parse_condition(word));
    return {};
  }

  Result<void> parse_condition(std::string_view word) {
    for (const ElementClass elements : kClasses) {
      if (word != name_of(elements)) continue;
      group_.elements = elements;
      return {};
    }
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const bool is_world = name == "world";
    if (equals == std::string_view::npos || (!is_world && name != "hosts")) {
      return wrong(word, fmt::format("'{}' is no condition; there are {}", word,
                                     nearest_of(name, {"float", "narrow", "integer", "world=", "hosts="})));
    }
    CountRange range;
    if (!parse_range(word.substr(equals + 1), range)) {
      return wrong(word, fmt::format("'{}' is no range; {}=8, {}=2..16, {}=..16 or {}=17..", word, name, name,
                                     name, name));
    }
    (is_world ? group_.world : group_.hosts) = range;
    return {};
  }

  Result<void> parse_row(std::string_view entry) {
    if (!has_group_) return wrong(entry, "an operation comes first, such as all_reduce: direct");
    TuningRow row = group_;
    std::string_view rest = entry;
    std::string_view word = next_word(rest);
    if (word.starts_with("<=")) {
      const std::string_view size = word.size() > 2 ? word.substr(2) : next_word(rest);
      row.bytes_max = parse_size(size);
      if (row.bytes_max < 0)
        return wrong(word, fmt::format("'{}' is no size; bytes, or with K, M or G, such as <=64K", size));
      word = next_word(rest);
      if (word.empty())
        return wrong(entry, fmt::format("'{}' names no plan; such as {} direct", entry, entry));
    }
    if (!trimmed(rest).empty()) {
      return wrong(trimmed(rest), fmt::format("'{}' is left over; a row is [<=SIZE] PLAN, rows are separated "
                                              "by semicolons",
                                              trimmed(rest)));
    }
    const auto plan = parse_plan(row.operation, word);
    if (!plan) return wrong(word, plan.error().message);
    row.plan = *plan;
    tuning_.rows.push_back(std::move(row));
    header_ = {};
    return {};
  }

  std::string_view text_;
  std::string_view source_;
  Tuning tuning_;
  TuningRow group_;
  bool has_group_ = false;
  std::string_view header_;  ///< empty once a row has followed
};

}  // namespace

ElementClass class_of(ElementType type) {
  if (!is_floating(type)) return ElementClass::integer;
  return bytes_of(type) < 4 ? ElementClass::narrow : ElementClass::floating;
}

std::string_view name_of(ElementClass elements) {
  switch (elements) {
    case ElementClass::floating: return "float";
    case ElementClass::narrow: return "narrow";
    case ElementClass::integer: return "integer";
    default: return "any";
  }
}

std::string text_of(const PlanWords& plan) {
  return plan.slices == 0 ? plan.algorithm : fmt::format("{}/{}{}", plan.algorithm, kSlices, plan.slices);
}

Result<PlanWords> parse_plan(Operation operation, std::string_view text) {
  PlanWords plan;
  const std::size_t slash = text.find('/');
  plan.algorithm = text.substr(0, slash);
  if (slash != std::string_view::npos) {
    const std::string_view rest = text.substr(slash + 1);
    if (!rest.starts_with(kSlices) || !parse_number(rest.substr(kSlices.size()), plan.slices) ||
        plan.slices < 1 || plan.slices > kSlicesMax || plan.algorithm == kAuto) {
      return fail(ErrorCode::usage, "'{}' is no plan; an algorithm, or ALGORITHM/slices=N with N of 1 to {}",
                  text, kSlicesMax);
    }
  }
  if (plan.algorithm != kAuto) TRY(find_algorithm(operation, plan.algorithm));
  return plan;
}

bool TuningRow::covers(Operation other, ElementType type, const WorldShape& shape, std::int64_t bytes) const {
  return operation == other && bytes <= bytes_max && world.contains(shape.ranks) &&
         hosts.contains(shape.hosts) && (elements == ElementClass::any || elements == class_of(type));
}

bool TuningRow::same_group(const TuningRow& other) const {
  return operation == other.operation && elements == other.elements && world == other.world &&
         hosts == other.hosts;
}

std::string text_of(const Tuning& tuning) {
  std::string text;
  const TuningRow* before = nullptr;
  for (const TuningRow& row : tuning.rows) {
    if (before != nullptr) text += "; ";
    if (before == nullptr || !row.same_group(*before)) {
      text += name_of(row.operation);
      if (row.elements != ElementClass::any) text += fmt::format(" {}", name_of(row.elements));
      text += range_text("world", row.world) + range_text("hosts", row.hosts) + ": ";
    }
    if (row.bytes_max != TuningRow::kAnySize) text += fmt::format("<={} ", size_text(row.bytes_max));
    text += text_of(row.plan);
    before = &row;
  }
  return text;
}

Result<Tuning> parse_tuning(std::string_view text, std::string_view source) {
  return Parser(text, source).parse();
}

}  // namespace diji::collective
