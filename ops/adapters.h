// Steps with which records turn older forms of a model format into their own.
#pragma once

#include "graph/builder.h"

#include <string_view>

namespace diji {

/// An attribute of an older version that became input number `input`: nothing happens where it is absent.
Result<void> attribute_to_input(Builder& builder, ForeignNode& node, std::string_view attribute,
                                std::size_t input);

}  // namespace diji
