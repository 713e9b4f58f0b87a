// The walk that turns a value of a fusion's body into scalar steps: views become affine accesses, coordinates
// that are computed stay affine as long as they can.
#pragma once

#include "codegen/kernel_body.h"

#include <optional>
#include <tuple>
#include <vector>

namespace diji {

/// A tensor's coordinate as a function of the loop coordinates: offset + Σ loop coordinate · factor + Σ
/// terms.
struct Coordinate {
  Dim offset;
  std::vector<Dim> factors;  ///< one a loop axis
  std::vector<IndexTerm> terms;
  bool operator==(const Coordinate&) const = default;
};
using Coordinates = std::vector<Coordinate>;

Coordinates identity(std::size_t axes);
/// Coordinates of `from` given those of `to`, where both have the same axes but for ones.
Coordinates across_ones(const Shape& from, const Shape& to, const Coordinates& at, std::size_t axes);

std::unexpected<Error> not_one_kernel(std::string_view why);

/// The steps of `id` at `at`, over loop axes of sizes `space`. `root` is the value that stands for the
/// finished root (none for a map).
Result<ScalarProgram> program_of(const Graph& body, ValueId id, const Coordinates& at, ValueId root,
                                 const Shape& space);

/// Which cells of x a scatter updates, over the axes of its updates: `program` computes what the numbers
/// need, and its last step is the cell, as the access of a load.
struct Cells {
  ScalarProgram program;
  std::vector<bool> apart;  ///< by axis: updates at different places of it go to different cells
};
Result<Cells> cells_of(const Graph& body, const Node& scatter);

}  // namespace diji
