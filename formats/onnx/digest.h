// The identity of a model's bytes: XXH3, 128 bits, as 32 hexadecimal digits.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace diji::onnx {

/// Of all parts behind each other. Not cryptographic: it tells versions of a file apart, not friends from
/// foes.
std::string digest_of(std::span<const std::span<const std::byte>> parts);

}  // namespace diji::onnx
