// Protocol buffers' wire format, written: fields behind each other.
#pragma once

#include "formats/onnx/wire.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace diji::onnx {

class WireWriter {
 public:
  void integer(std::uint32_t field, std::uint64_t value) {
    tag(field, WireType::varint);
    varint(value);
  }
  void real(std::uint32_t field, float value) {
    tag(field, WireType::fixed32);
    const auto bytes = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void bytes(std::uint32_t field, std::span<const std::byte> data) {
    tag(field, WireType::bytes);
    varint(data.size());
    bytes_.insert(bytes_.end(), data.begin(), data.end());
  }
  void text(std::uint32_t field, std::string_view text) { bytes(field, std::as_bytes(std::span(text))); }
  void message(std::uint32_t field, WireWriter message) { bytes(field, message.bytes_); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  static_assert(std::endian::native == std::endian::little, "the wire's order is this machine's");
  void tag(std::uint32_t field, WireType type) { varint((field << 3) | static_cast<std::uint32_t>(type)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>((value & 0x7f) | 0x80));
    bytes_.push_back(static_cast<std::byte>(value));
  }

  std::vector<std::byte> bytes_;
};

}  // namespace diji::onnx
