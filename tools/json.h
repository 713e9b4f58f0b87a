// JSON for scripts: keys keep the order they are written in; the one heavy header of the verbs.
#pragma once

#include "base/error.h"

#include <nlohmann/json.hpp>

namespace diji::tools {

using Json = nlohmann::ordered_json;

/// One line on stdout. Bytes that are no UTF-8 (names from files) are replaced; numbers that JSON lacks are
/// null.
void print_json(const Json& document);

/// {"error": {...}}: every field is there, null where it does not apply.
Json json_of(const Error& error);

}  // namespace diji::tools
