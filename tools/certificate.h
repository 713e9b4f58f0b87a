// The certificate of a device: what was asked of it by which diji, and what it answered.
#pragma once

#include "runtime/conformance.h"
#include "runtime/rules.h"
#include "tools/json.h"

#include <cstdint>
#include <string>
#include <vector>

namespace diji::tools {

/// Which of the operators times dtypes were run: a seeded sample, or all.
struct Selection {
  std::string operators = "*", dtypes = "all";
  std::int64_t sample = 0;  ///< 0: all
  std::int64_t seed = 0;
  std::int64_t run = 0, of = 0;
};

struct Certificate {
  const DeviceEntry* entry = nullptr;
  Selection selection;
  std::vector<RuleResult> rules;
  std::vector<VerifyRow> operators;

  /// No rule and no case failed; operators were run, or the device is of tier 0.
  bool ok() const;
  Json document() const;
};

/// A rule or an operator a line, so that two certificates can be compared by line.
std::string text_of_certificate(const Json& document);

}  // namespace diji::tools
