// NumPy's .npy files, versions 1 to 3: little-endian, C order, one array a file.
#pragma once

#include "base/error.h"
#include "base/host_tensor.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace diji {

/// Errors: those of reading a file; malformed with the byte (header, data that does not fit it); unsupported
/// by name: Fortran order, big-endian numbers, objects, strings, structures and other types that are no
/// DType.
Result<HostTensor> read_npy(const std::filesystem::path& path);
/// The same on bytes, which the tensor keeps; `name` stands for the file in errors.
Result<HostTensor> read_npy_bytes(std::vector<std::byte> bytes, const std::string& name);

/// Version 1.0, as numpy.save writes it, whole or not at all. Errors: bf16, which the format lacks
/// (unsupported), io.
Result<void> write_npy(const std::filesystem::path& path, const HostTensor& tensor);
Result<std::vector<std::byte>> npy_bytes(const HostTensor& tensor);

}  // namespace diji
