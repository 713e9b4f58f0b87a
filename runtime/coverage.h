// Where the operators of a model run.
#pragma once

#include "graph/graph.h"

#include <string>
#include <string_view>
#include <vector>

namespace diji {

/// How one type of operator of the model runs.
struct CoverageRow {
  std::string op;   ///< the catalogue's name
  std::string how;  ///< native, generated, host or folded
  int count = 0;
  std::string reason;
};

/// Where the model's operators went. Operators whose results are known when the model is loaded (constants,
/// shapes) are folded; they count as generated work done ahead.
struct Coverage {
  int native = 0, generated = 0, host = 0, folded = 0;
  std::vector<CoverageRow> rows;
  std::string line() const;  ///< "95 operators: 66 generated, 29 folded, 0 native, 0 on the host"
  void add(const Coverage& more);
};

/// Of a graph before the passes, on a device of this dialect.
Coverage coverage_of(const Graph& graph, std::string_view dialect);

}  // namespace diji
