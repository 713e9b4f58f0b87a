// The words after a verb, parsed against its table, and read with typed getters that name what is wrong.
#pragma once

#include "base/error.h"
#include "tools/verb.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace diji::tools {

/// Getters take names of the verb's own table (CHECKed). Errors are usage: the option, the value, what it may
/// be.
class Arguments {
 public:
  /// Errors: an unknown option (with the nearest), a missing value, an option twice, too few or many
  /// operands.
  static Result<Arguments> parse(const Verb& verb, std::span<const std::string> words);

  bool has(std::string_view name) const { return !all(name).empty(); }
  /// Every value of a repeatable option, in order.
  const std::vector<std::string>& all(std::string_view name) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  Result<std::int64_t> integer(std::string_view name, std::int64_t otherwise, std::int64_t min,
                               std::int64_t max) const;
  /// Finite and at least 0.
  Result<double> real(std::string_view name, double otherwise) const;
  /// "15%" or "0.15", 0 to 1.
  Result<double> share(std::string_view name, double otherwise) const;
  /// "1048576", "512M", "2GiB": factors of 1024; at least 1.
  Result<std::uint64_t> bytes(std::string_view name, std::uint64_t otherwise) const;
  /// The index of the value in `choices`.
  Result<std::size_t> choice(std::string_view name, std::span<const std::string_view> choices,
                             std::size_t otherwise) const;
  const std::vector<std::string>& operands() const { return operands_; }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> operands_;
};

/// How many of `words` are the verb's own: all, or of one that passes the rest, those before the first
/// operand.
std::size_t own_words(const Verb& verb, std::span<const std::string> words);

/// `value` among `choices`, else a usage error that lists them. `what` names the thing: "--log-level".
Result<std::size_t> find_choice(std::string_view what, std::string_view value,
                                std::span<const std::string_view> choices);

/// " (did you mean 'softmax'?)", or "" where nothing is near.
std::string did_you_mean(std::string_view typed, std::span<const std::string> candidates);

/// Everything that `verb` takes: its own options, the shared ones, the common ones.
std::vector<OptionDef> options_of(const Verb& verb);

}  // namespace diji::tools
