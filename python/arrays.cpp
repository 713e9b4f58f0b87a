// DLPack describes both directions; strides other than row-major's cost a copy.
#include "python/arrays.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace diji::python {
namespace nb = nanobind;
namespace {

using Code = nb::dlpack::dtype_code;

Code code_of(DType dtype) {
  if (dtype == DType::bf16) return Code::Bfloat;
  switch (info(dtype).dtype_class) {
    case DTypeClass::floating: return Code::Float;
    case DTypeClass::signed_integer: return Code::Int;
    case DTypeClass::unsigned_integer: return Code::UInt;
    case DTypeClass::boolean: return Code::Bool;
  }
  check_failed("dtype_class", "a DTypeClass outside its enumeration");
}

nb::dlpack::dtype dlpack_of(DType dtype) {
  return {.code = static_cast<std::uint8_t>(code_of(dtype)),
          .bits = static_cast<std::uint8_t>(8 * bytes_of(dtype)),
          .lanes = 1};
}

std::optional<DType> dtype_of_dlpack(nb::dlpack::dtype type) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    if (dlpack_of(static_cast<DType>(i)) == type) return static_cast<DType>(i);
  }
  return std::nullopt;
}

// "float8_e4m3", "object", "torch.complex64", or nothing where the object has no dtype.
std::string dtype_text(nb::handle value) {
  const nb::object dtype = nb::getattr(value, "dtype", nb::none());
  return dtype.is_none() ? "" : nb::cast<std::string>(nb::str(dtype));
}

// What the array itself says when it is asked for its memory; nothing where it gives it.
std::string refusal_of(nb::handle value) {
  if (!nb::hasattr(value, "__dlpack__")) return "";
  try {
    value.attr("__dlpack__")();
  } catch (const nb::python_error& error) {
    return fmt::format(" ({})", nb::cast<std::string>(nb::str(error.value())));
  }
  return "";
}

std::unexpected<Error> unreadable(std::string_view what, nb::handle value) {
  auto error =
      fail(ErrorCode::mismatch,
           "{}: a {} is no array that can be read{}; give a NumPy array, or a tensor on the CPU with "
           "__dlpack__ or the buffer protocol",
           what, nb::cast<std::string>(nb::inst_name(value)), refusal_of(value));
  error.error().dtype = dtype_text(value);
  return error;
}

// NumPy lends a bfloat16 array neither through DLPack nor as a buffer, but its bits as integers.
template <typename Array>
bool read(nb::handle value, Array& array, bool& is_bfloat16) {
  if (nb::try_cast(value, array, false)) return true;
  is_bfloat16 = dtype_text(value) == "bfloat16" && nb::hasattr(value, "view");
  return is_bfloat16 && nb::try_cast(nb::object(value.attr("view")("uint16")), array, false);
}

template <typename Array>
bool is_row_major(const Array& array) {
  if (array.size() == 0) return true;  // whatever its strides are
  std::int64_t stride = 1;
  for (std::size_t axis = array.ndim(); axis-- > 0;) {
    const auto size = static_cast<std::int64_t>(array.shape(axis));
    if (size != 1 && array.stride(axis) != stride) return false;
    stride *= size;
  }
  return true;
}

template <typename Array>
Result<DType> dtype_on_host(std::string_view what, nb::handle value, const Array& array, bool is_bfloat16) {
  if (array.device_type() != nb::device::cpu::value) {
    return fail(ErrorCode::mismatch, "{}: the array is not in the host's memory; copy it there first", what);
  }
  const auto dtype = is_bfloat16 ? DType::bf16 : dtype_of_dlpack(array.dtype());
  if (dtype) return *dtype;
  auto error = fail(ErrorCode::mismatch, "{}: diji has no dtype {}", what, dtype_text(value));
  error.error().dtype = dtype_text(value);
  return error;
}

bool is_aligned(const void* data, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes_of(dtype)) == 0;
}

// One run of the last axis after the other, element by element.
void copy_strided(const nb::ndarray<nb::ro>& array, std::size_t axis, const std::byte* from,
                  std::size_t bytes, std::byte*& to) {
  if (axis == array.ndim()) {
    std::memcpy(to, from, bytes);
    to += bytes;
    return;
  }
  for (std::size_t i = 0; i < array.shape(axis); ++i) {
    copy_strided(array, axis + 1, from, bytes, to);
    from += array.stride(axis) * static_cast<std::int64_t>(bytes);
  }
}

}  // namespace

std::string numpy_name(DType dtype) {
  if (dtype == DType::bf16) return "bfloat16";
  if (dtype == DType::boolean) return "bool";
  const std::string_view kind = is_floating(dtype) ? "float" : is_signed_integer(dtype) ? "int" : "uint";
  return fmt::format("{}{}", kind, 8 * bytes_of(dtype));
}

Result<Input> input_of(std::string_view what, nb::handle value) {
  Input input;
  bool is_bfloat16 = false;
  if (!read(value, input.array, is_bfloat16)) return unreadable(what, value);
  const nb::ndarray<nb::ro>& array = input.array;
  const DType dtype = TRY(dtype_on_host(what, value, array, is_bfloat16));
  StaticShape shape;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis)
    shape.push_back(static_cast<std::int64_t>(array.shape(axis)));
  const auto* data = static_cast<const std::byte*>(array.data());
  const auto bytes = static_cast<std::size_t>(bytes_of(dtype));
  if (is_aligned(data, dtype) && is_row_major(array)) {
    input.tensor = HostTensor::view(dtype, std::move(shape), {data, array.size() * bytes}, nullptr);
    return input;
  }
  input.tensor = TRY(HostTensor::allocate(dtype, std::move(shape)));
  std::byte* to = input.tensor.mutable_bytes().data();
  copy_strided(array, 0, data, bytes, to);
  return input;
}

Result<Output> output_of(std::string_view what, nb::handle value) {
  Output output;
  bool is_bfloat16 = false;
  if (!read(value, output.array, is_bfloat16)) {
    nb::ndarray<nb::ro> readable;
    if (!read(value, readable, is_bfloat16)) return unreadable(what, value);
    return fail(ErrorCode::mismatch, "{}: the array is read-only", what);
  }
  output.dtype = TRY(dtype_on_host(what, value, output.array, is_bfloat16));
  if (!is_row_major(output.array) || !is_aligned(output.array.data(), output.dtype))
    return fail(ErrorCode::mismatch, "{}: the array is not row-major, or not aligned", what);
  return output;
}

Result<nb::object> array_of(HostTensor tensor, OutputForm form) {
  const DType dtype = tensor.dtype();
  nb::object bfloat16;
  if (dtype == DType::bf16 && form == OutputForm::numpy) {
    try {
      bfloat16 = nb::module_::import_("ml_dtypes").attr("bfloat16");
    } catch (const nb::python_error&) {
      auto error = fail(ErrorCode::unsupported,
                        "NumPy has bfloat16 from the package ml_dtypes, which is not installed; "
                        "output=\"dlpack\" does without");
      error.error().dtype = numpy_name(dtype);
      return error;
    }
  }
  const std::vector<std::size_t> shape(tensor.shape().begin(), tensor.shape().end());
  auto owned = std::make_unique<HostTensor>(std::move(tensor));
  void* data = owned->mutable_bytes().data();
  const nb::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<HostTensor*>(p); });
  if (form == OutputForm::dlpack) {
    return nb::cast(
        nb::ndarray<nb::array_api>(data, shape.size(), shape.data(), owner, nullptr, dlpack_of(dtype)));
  }
  const DType stored = bfloat16.is_valid() ? DType::u16 : dtype;
  nb::object array =
      nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr, dlpack_of(stored)));
  return bfloat16.is_valid() ? nb::object(array.attr("view")(bfloat16)) : array;
}

}  // namespace diji::python
