// Small steps that decompositions share: sizes that must agree, positions from either end.
#pragma once

#include "ops/formula.h"

#include <string_view>

namespace diji {

/// Equal now, or taken as equal and checked at every run. A contradiction fails the builder.
void require_equal(Builder& b, const Dim& left, const Dim& right, std::string_view why);

/// Positions along an axis of `size` elements: a negative one counts from the end.
ValueId from_the_end(Builder& b, ValueId positions, const Dim& size);

}  // namespace diji
