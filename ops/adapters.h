// Steps with which records turn older forms of a model format into their own.
#pragma once

#include "graph/builder.h"

#include <string_view>

namespace diji {

/// An attribute of an older version that became input number `input`: nothing happens where it is absent.
Result<void> attribute_to_input(Builder& builder, ForeignNode& node, std::string_view attribute,
                                std::size_t input);

/// consumed_inputs, a hint of the first operator sets.
Result<void> drop_consumed_inputs(Builder& builder, ForeignNode& node);

/// Before version 7 the second operand was aligned at `axis` of the first, when `broadcast` said so.
Result<void> legacy_broadcast(Builder& builder, ForeignNode& node);

}  // namespace diji
