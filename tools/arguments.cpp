// The only file that knows CLI11: it splits the words; names, counts and values are judged here.
#include "tools/arguments.h"

#include "base/check.h"
#include "base/checked.h"
#include "base/nearest.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <optional>

namespace diji::tools {
namespace {

// One option of the table and where CLI11 puts what it finds for it.
struct Holder {
  OptionDef option;
  std::vector<std::string> values;
  std::int64_t count = 0;  // of a switch
};

// What CLI11 could not place; the first of it is enough for one sentence.
Result<void> refuse_unknown(const Verb& verb, std::vector<std::string> unknown) {
  std::erase(unknown, "--");  // CLI11 leaves the mark itself over
  if (unknown.empty()) return {};
  const std::string typed = unknown.front().substr(0, unknown.front().find('='));
  std::vector<std::string> names;
  for (const OptionDef& option : options_of(verb)) names.emplace_back(option.name);
  return fail(ErrorCode::usage, "'{}' is no option of diji {}{}; see diji {} --help", typed, verb.name,
              did_you_mean(typed, names), verb.name);
}

// CLI11 would read a number or a truth value.
Result<void> refuse_values_of_switches(const Verb& verb, std::span<const std::string> words) {
  for (const OptionDef& option : options_of(verb)) {
    for (const std::string& word : words) {
      if (!option.value.empty() || !word.starts_with(fmt::format("{}=", option.name))) continue;
      return fail(ErrorCode::usage, "'{}': {} takes no value", word, option.name);
    }
  }
  return {};
}

std::unexpected<Error> value_is_missing(const OptionDef& option) {
  return fail(ErrorCode::usage, "{} {}: a value is missing", option.name, option.value);
}

Result<void> check_values(const Holder& holder) {
  const OptionDef& option = holder.option;
  if (!option.repeatable && holder.values.size() > 1) {
    return fail(ErrorCode::usage, "{} is given {} times; give it once", option.name, holder.values.size());
  }
  for (const std::string& value : holder.values) {
    if (value.empty() || value.starts_with("--")) return value_is_missing(option);
  }
  return {};
}

Result<void> check_operands(const Verb& verb, const std::vector<std::string>& words) {
  const Operands& operands = verb.operands;
  if (words.size() < operands.count_min) {
    return fail(ErrorCode::usage, "diji {} needs {}: {}", verb.name, operands.usage, operands.help);
  }
  if (words.size() > operands.count_max) {
    return fail(ErrorCode::usage, "'{}' is one word too many for diji {}{}", words[operands.count_max],
                verb.name, operands.usage.empty() ? "" : fmt::format(", which takes {}", operands.usage));
  }
  return {};
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "M", "MB" and "MiB" are all 2^20, as users of memory limits expect.
std::optional<std::uint64_t> factor_of(std::string_view suffix) {
  if (suffix.ends_with("iB")) suffix.remove_suffix(2);
  if (suffix.ends_with('B')) suffix.remove_suffix(1);
  if (suffix.empty()) return 1;
  const std::size_t power = std::string_view("KMGT").find(suffix);
  if (suffix.size() != 1 || power == std::string_view::npos) return std::nullopt;
  return std::uint64_t{1} << (10 * (power + 1));
}

}  // namespace

std::vector<OptionDef> options_of(const Verb& verb) {
  std::vector<OptionDef> options(verb.options.begin(), verb.options.end());
  options.insert(options.end(), verb.shared_options.begin(), verb.shared_options.end());
  options.insert(options.end(), kCommonOptions.begin(), kCommonOptions.end());
  return options;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(typed, candidates);
  return nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest);
}

Result<std::size_t> find_choice(std::string_view what, std::string_view value,
                                std::span<const std::string_view> choices) {
  const auto found = std::ranges::find(choices, value);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  const std::vector<std::string> names(choices.begin(), choices.end());
  return fail(ErrorCode::usage, "{}: '{}' is not one of {}{}", what, value, fmt::join(choices, ", "),
              did_you_mean(value, names));
}

std::size_t own_words(const Verb& verb, std::span<const std::string> words) {
  if (!verb.passes_rest) return words.size();
  const std::vector<OptionDef> options = options_of(verb);
  std::size_t at = 0;
  while (at < words.size() && words[at].starts_with('-') && words[at] != "--") {
    const auto option = std::ranges::find(options, words[at], &OptionDef::name);
    at += option != options.end() && !option->value.empty() ? 2 : 1;
  }
  return std::min(at, words.size());
}

Result<Arguments> Arguments::parse(const Verb& verb, std::span<const std::string> all_words) {
  const std::span<const std::string> words = all_words.first(own_words(verb, all_words));
  std::span<const std::string> rest = all_words.subspan(words.size());
  if (!rest.empty() && rest[0] == "--") rest = rest.subspan(1);
  TRY(refuse_values_of_switches(verb, words));
  CLI::App app;
  app.set_help_flag();  // help is printed from the table, before parsing
  app.allow_extras();
  std::deque<Holder> holders;  // CLI11 keeps references to its elements
  Arguments arguments;
  try {
    for (const OptionDef& option : options_of(verb)) {
      Holder& holder = holders.emplace_back(Holder{option, {}, 0});
      if (option.value.empty()) {
        app.add_flag(std::string(option.name), holder.count);
      } else {
        auto* added = app.add_option(std::string(option.name), holder.values);
        added->allow_extra_args(false)->type_name(std::string(option.value));
      }
    }
    app.add_option("operands", arguments.operands_);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 takes them last first
  } catch (const CLI::Error& error) {
    for (const Holder& holder : holders) {
      if (!holder.option.value.empty() && words.back() == holder.option.name)
        return value_is_missing(holder.option);
    }
    return fail(ErrorCode::usage, "{}", error.what());
  }
  TRY(refuse_unknown(verb, app.remaining()));
  for (Holder& holder : holders) {
    TRY(check_values(holder));
    if (holder.count > 0) holder.values.assign(1, "yes");
    arguments.values_.emplace(holder.option.name, std::move(holder.values));
  }
  arguments.operands_.insert(arguments.operands_.end(), rest.begin(), rest.end());
  TRY(check_operands(verb, arguments.operands_));
  return arguments;
}

const std::vector<std::string>& Arguments::all(std::string_view name) const {
  const auto found = values_.find(name);
  CHECK(found != values_.end(), "an option of the verb's table");
  return found->second;
}

std::string Arguments::text(std::string_view name, std::string_view otherwise) const {
  return has(name) ? all(name).front() : std::string(otherwise);
}

Result<std::int64_t> Arguments::integer(std::string_view name, std::int64_t otherwise, std::int64_t min,
                                        std::int64_t max) const {
  if (!has(name)) return otherwise;
  const auto value = number_of<std::int64_t>(all(name).front());
  if (value && *value >= min && *value <= max) return *value;
  return fail(ErrorCode::usage, "{}: '{}' is no integer from {} to {}", name, all(name).front(), min, max);
}

Result<double> Arguments::real(std::string_view name, double otherwise) const {
  if (!has(name)) return otherwise;
  const auto value = number_of<double>(all(name).front());
  if (value && std::isfinite(*value) && *value >= 0) return *value;
  return fail(ErrorCode::usage, "{}: '{}' is no number of at least 0", name, all(name).front());
}

Result<double> Arguments::share(std::string_view name, double otherwise) const {
  if (!has(name)) return otherwise;
  std::string_view text = all(name).front();
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  const auto number = number_of<double>(text);
  const double value = number.value_or(-1) / (percent ? 100 : 1);
  if (value >= 0 && value <= 1) return value;
  return fail(ErrorCode::usage, "{}: '{}' is no share such as 15% or 0.15", name, all(name).front());
}

Result<std::uint64_t> Arguments::bytes(std::string_view name, std::uint64_t otherwise) const {
  if (!has(name)) return otherwise;
  const std::string_view text = all(name).front();
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = number_of<std::uint64_t>(text.substr(0, digits));
  const auto factor = factor_of(text.substr(digits));
  const auto value = number && factor ? checked_mul(*number, *factor) : std::nullopt;
  if (value && *value > 0) return *value;
  return fail(ErrorCode::usage, "{}: '{}' is no size such as 1048576, 512M or 2G", name, text);
}

Result<std::size_t> Arguments::choice(std::string_view name, std::span<const std::string_view> choices,
                                      std::size_t otherwise) const {
  if (!has(name)) return otherwise;
  return find_choice(name, all(name).front(), choices);
}

}  // namespace diji::tools
