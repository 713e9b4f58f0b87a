// Rows of a benchmark: how they are written, and compared with rows of another day.
#pragma once

#include "base/error.h"
#include "tools/json.h"

#include <optional>
#include <string>
#include <vector>

namespace diji::tools {

/// Median and interquartile range as a share of it.
struct Measured {
  double median = 0, spread = 0;
};
Measured measured(std::vector<double> values);

struct PeerRow {
  std::string name, version;
  std::string absent;                           ///< why there is no number; empty where there is one
  double value = 0;                             ///< in the row's unit
  double times_as_fast = 0, low = 0, high = 0;  ///< diji against it: median and quartiles of paired rounds
};

struct BenchRow {
  std::string name;
  double value = 0;
  std::string unit;  ///< "ms" and "us": less is better; others: more is
  double spread = 0;
  std::optional<double> share_of_limit;
  std::vector<PeerRow> peers;
  std::string not_finite;  ///< with --strict
};

struct Bench {
  Json machine;
  std::vector<BenchRow> rows;
};

Json json_of(const Bench& bench);
enum class BenchFormat : std::uint8_t { table, json, csv, md };
void print(const Bench& bench, BenchFormat format);

/// Spreads are of the rounds of one call; two calls differ by a little more.
inline constexpr double kNoiseMin = 0.05;

/// A row is worse by what its value and its share of the limit have both lost: where the limit, measured in
/// the same call, is lower too, the machine has less to give just now. It is a regression where that exceeds
/// the noise: the sum of the two spreads, and kNoiseMin at least.
struct Regression {
  std::string name;
  double before = 0, now = 0;
  double worse = 0;  ///< 0.2: takes 1.2 times as long, or does 1.2 times less
  double noise = 0;
};
struct Against {
  std::vector<Regression> regressions;  ///< worse > noise
  std::vector<std::string> missing;     ///< saved, and not measured now
  std::size_t compared = 0;
  bool other_machine = false;
};
/// A document of --save. Errors: malformed, naming what is not there; those of the file.
Result<Bench> read_saved(const std::string& file);
/// Errors: mismatch, where no row is in both.
Result<Against> compare(const Bench& now, const Bench& saved, const std::string& file);

}  // namespace diji::tools
