// The encodings of tensor data: raw bytes, five typed lists, external files.
#include "formats/onnx/tensor.h"

#include "base/checked.h"
#include "base/files.h"
#include "formats/onnx/names.h"
#include "formats/onnx/wire.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

namespace diji::onnx {
namespace {

template <typename... Args>
std::unexpected<Error> broken(const TensorProto& tensor, const Source& source,
                              fmt::format_string<Args...> text, Args&&... args) {
  return fail_at(ErrorCode::malformed, source.file, tensor.offset, "tensor '{}': {}", shown(tensor.name),
                 fmt::format(text, std::forward<Args>(args)...));
}

WireType element_type(DType dtype) {
  if (dtype == DType::f32) return WireType::fixed32;
  return dtype == DType::f64 ? WireType::fixed64 : WireType::varint;
}

// One element of a typed list; nothing when the value is outside the dtype's range.
template <typename T>
std::optional<T> decode(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else if constexpr (std::is_same_v<T, bool>) {
    return bits <= 1 ? std::optional(bits == 1) : std::nullopt;
  } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    if (bits > std::numeric_limits<std::uint16_t>::max()) return std::nullopt;
    T value;
    value.bits = static_cast<std::uint16_t>(bits);
    return value;
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return bits;
  } else {
    auto value = static_cast<std::int64_t>(bits);
    // int32 values may leave out the upper half of a negative number (protobuf keeps the lower 32 bits).
    if constexpr (sizeof(T) <= 4 && std::is_signed_v<T>) {
      if (value > std::numeric_limits<std::int32_t>::max() &&
          value <= std::numeric_limits<std::uint32_t>::max()) {
        value = static_cast<std::int32_t>(value);
      }
    }
    if (value < std::int64_t{std::numeric_limits<T>::min()} ||
        value > std::int64_t{std::numeric_limits<T>::max()}) {
      return std::nullopt;
    }
    return static_cast<T>(value);
  }
}

// The second pass over the message: each element goes straight to its place.
template <typename T>
Result<void> decode_typed(const TensorProto& tensor, const Source& source, std::span<T> elements) {
  std::size_t next = 0;
  Fields fields(tensor.message);
  while (const std::optional<Field> field = TRY(fields.next())) {
    if (field->number != tensor.typed_field) continue;
    TRY(field->each(element_type(dtype_of<T>()), "tensor data",
                    [&](std::uint64_t bits, std::int64_t offset) -> Result<void> {
                      const std::optional<T> value = decode<T>(bits);
                      if (!value) {
                        return fail_at(ErrorCode::malformed, source.file, offset,
                                       "tensor '{}': element {} is out of range for {}", shown(tensor.name),
                                       next, name_of(dtype_of<T>()));
                      }
                      elements[next++] = *value;
                      return {};
                    }));
  }
  return {};
}

Result<HostTensor> typed_value(const TensorProto& tensor, const Source& source, DType dtype) {
  const std::uint32_t wanted = kDataTypes[static_cast<std::size_t>(tensor.data_type)].typed_field;
  if (tensor.typed_field != wanted) {
    return broken(tensor, source, "typed data in field {}, where {} is kept in field {}", tensor.typed_field,
                  name_of(dtype), wanted);
  }
  HostTensor result = TRY(HostTensor::allocate(dtype, tensor.dims));
  TRY(visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return decode_typed<T>(tensor, source, result.mutable_values<T>());
  }));
  return result;
}

Result<HostTensor> bytes_value(const TensorProto& tensor, const Source& source, DType dtype,
                               std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                               bool mapped) {
  if (dtype == DType::boolean && !all_bools(bytes)) {
    return broken(tensor, source, "a bool that is neither 0 nor 1");
  }
  HostTensor value = TRY(HostTensor::view_or_copy(dtype, tensor.dims, bytes, owner));
  if (mapped && value.bytes().data() != bytes.data()) forget_pages(bytes);  // they were copied
  return value;
}

// The bytes that hold packed elements, from wherever they are kept.
Result<std::vector<std::byte>> packed_bytes(const TensorProto& tensor, Source& source, std::int64_t count) {
  std::vector<std::byte> bytes;
  if (tensor.external) {
    const ExternalBytes data =
        TRY(source.external.bytes(tensor, source.file, static_cast<std::uint64_t>(count)));
    bytes.assign(data.bytes.begin(), data.bytes.end());
  } else if (tensor.typed_field != 0) {
    if (tensor.typed_field != TensorFields::int32_data) {
      return broken(tensor, source, "typed data in field {}, where packed elements are kept in field {}",
                    tensor.typed_field, std::uint32_t{TensorFields::int32_data});
    }
    Fields fields(tensor.message);
    while (const std::optional<Field> field = TRY(fields.next())) {
      if (field->number != tensor.typed_field) continue;
      TRY(field->each(WireType::varint, "tensor data", [&](std::uint64_t bits, std::int64_t) -> Result<void> {
        // One byte an entry; writers that see it as signed leave copies of its highest bit above.
        const auto value = static_cast<std::int32_t>(bits);
        if (value < -128 || value > 255)
          return broken(tensor, source, "{} is no byte of packed elements", value);
        bytes.push_back(static_cast<std::byte>(value));
        return {};
      }));
    }
  } else {
    Reader raw = tensor.raw.value_or(Reader({}, source.file));
    const auto data = TRY(raw.take(raw.remaining(), "raw_data"));
    bytes.assign(data.begin(), data.end());
  }
  if (std::ssize(bytes) == count) return bytes;
  return broken(tensor, source, "{} bytes of data where shape {} of {} needs {}", bytes.size(),
                text_of(tensor.dims), kDataTypes[static_cast<std::size_t>(tensor.data_type)].name, count);
}

// Each element in a byte of its own, with its sign. Unused bits of the last byte do not matter.
Result<HostTensor> packed_value(const TensorProto& tensor, Source& source, std::int64_t count) {
  const DataType& type = kDataTypes[static_cast<std::size_t>(tensor.data_type)];
  const int per_byte = 8 / type.packed_bits;
  const std::vector<std::byte> bytes =
      TRY(packed_bytes(tensor, source, count / per_byte + (count % per_byte == 0 ? 0 : 1)));
  HostTensor result = TRY(HostTensor::allocate(type.widened, tensor.dims));
  const std::span<std::byte> elements = result.mutable_bytes();
  const int unused = 8 - type.packed_bits;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto each = static_cast<std::size_t>(per_byte);
    const int shift = static_cast<int>(i % each) * type.packed_bits;
    const auto high =
        static_cast<std::uint8_t>(std::to_integer<unsigned>(bytes[i / each]) >> shift << unused);
    const int value = type.widened == DType::i8 ? static_cast<std::int8_t>(high) >> unused : high >> unused;
    elements[i] = static_cast<std::byte>(value);
  }
  return result;
}

Result<HostTensor> decoded_value(const TensorProto& tensor, Source& source) {
  const std::string what = fmt::format("tensor '{}'", shown(tensor.name));
  const bool packed = packed_type(tensor.data_type) != 0;
  const DType dtype =
      packed ? DType::u8 : TRY(dtype_of_number(tensor.data_type, what, source.file, tensor.offset));
  const auto count = checked_product(tensor.dims);
  const auto bytes = count ? checked_mul(*count, bytes_of(dtype)) : std::nullopt;
  if (!bytes)
    return broken(tensor, source, "{} is no shape: its size is negative or too large", text_of(tensor.dims));
  const bool has_raw = tensor.raw && !tensor.raw->at_end();
  if ((has_raw || tensor.external) && tensor.typed_field != 0) {
    return broken(tensor, source, "it has both {} and typed data", tensor.external ? "external" : "raw");
  }
  if (tensor.external && has_raw) return broken(tensor, source, "it has both external and raw data");
  if (packed) return packed_value(tensor, source, *count);
  if (tensor.external) {
    const ExternalBytes data =
        TRY(source.external.bytes(tensor, source.file, static_cast<std::uint64_t>(*bytes)));
    return bytes_value(tensor, source, dtype, data.bytes, data.owner, true);
  }
  if (tensor.typed_field != 0) {
    if (tensor.typed_count != static_cast<std::uint64_t>(*count)) {
      return broken(tensor, source, "{} elements of data where shape {} has {}", tensor.typed_count,
                    text_of(tensor.dims), *count);
    }
    return typed_value(tensor, source, dtype);
  }
  Reader raw = tensor.raw.value_or(Reader({}, source.file));
  if (raw.remaining() != static_cast<std::uint64_t>(*bytes)) {
    return broken(tensor, source, "{} bytes of data where shape {} of {} needs {}", raw.remaining(),
                  text_of(tensor.dims), name_of(dtype), *bytes);
  }
  return bytes_value(tensor, source, dtype, TRY(raw.take(raw.remaining(), "raw_data")), source.owner,
                     source.mapped);
}

}  // namespace

std::int32_t packed_type(std::int64_t number) {
  const bool packed = number > 0 && number < std::ssize(kDataTypes) &&
                      kDataTypes[static_cast<std::size_t>(number)].packed_bits != 0;
  return packed ? static_cast<std::int32_t>(number) : 0;
}

Result<DType> storage_of_number(std::int64_t number, std::string_view what, std::string_view file,
                                std::int64_t offset) {
  if (packed_type(number) != 0) return kDataTypes[static_cast<std::size_t>(number)].widened;
  return dtype_of_number(number, what, file, offset);
}

bool all_bools(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte <= std::byte{1}; });
}

Result<DType> dtype_of_number(std::int64_t number, std::string_view what, std::string_view file,
                              std::int64_t offset) {
  if (number <= 0 || number >= std::ssize(kDataTypes)) {
    return fail_at(ErrorCode::malformed, file, offset, "{} has the unknown data type {}", what, number);
  }
  const DataType& type = kDataTypes[static_cast<std::size_t>(number)];
  if (!type.dtype) {
    return fail_at(ErrorCode::unsupported, file, offset, "{} has data type {}, which diji does not have yet",
                   what, type.name);
  }
  return *type.dtype;
}

Result<HostTensor> tensor_value(const TensorProto& tensor, Source& source) {
  if (const auto known = source.decoded.find(&tensor); known != source.decoded.end()) return known->second;
  HostTensor value = TRY(decoded_value(tensor, source));
  source.decoded.emplace(&tensor, value);
  return value;
}

}  // namespace diji::onnx
