// Arrays of Python as HostTensors and back: DLPack and the buffer protocol in, NumPy and DLPack out.
#pragma once

#include "base/host_tensor.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <string_view>

namespace diji::python {

/// NumPy's word for a dtype: "float32", "bfloat16", "bool".
std::string numpy_name(DType dtype);

/// A tensor over an array's memory, and what keeps that memory.
struct Input {
  nanobind::ndarray<nanobind::ro> array;
  HostTensor tensor;
};

/// Row-major memory is used where it lies; anything else is copied. `what` names the array in errors
/// (mismatch): no array, not on the host, a dtype that diji does not have.
Result<Input> input_of(std::string_view what, nanobind::handle value);

/// Memory of an array that is written to, and what keeps it.
struct Output {
  nanobind::ndarray<> array;
  DType dtype = DType::f32;
};

/// Errors (mismatch), beginning with `what`: those of input_of; memory that is read-only, not row-major or
/// not aligned.
Result<Output> output_of(std::string_view what, nanobind::handle value);

enum class OutputForm : std::uint8_t { numpy, dlpack };

/// An array that takes over the tensor's memory, which must be its own. bfloat16 in NumPy is a dtype of the
/// package ml_dtypes: unsupported where that is not installed.
Result<nanobind::object> array_of(HostTensor tensor, OutputForm form);

}  // namespace diji::python
