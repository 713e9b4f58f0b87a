// The graph's inputs: types with named sizes, and which of them become constants.
#pragma once

#include "formats/onnx/import.h"
#include "formats/onnx/proto.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace diji::onnx {

/// Turns declared types into Types under the caller's fixed sizes.
class InputTypes {
 public:
  InputTypes(const Model& model, const ImportOptions& options) : model_(model), options_(options) {}

  /// Checks the options against the declared inputs and binds the symbols that constants fix. Errors: usage
  /// (a name the model does not have, with the nearest; a size that is none), mismatch (dtype, shape, a
  /// symbol with two sizes).
  Result<void> bind_options();

  /// The caller's tensor in place of an input's default; null when there is none.
  const HostTensor* override_of(std::string_view name) const;

  /// Errors: unsupported (not a tensor, no shape, no such dtype), malformed sizes.
  Result<Type> type_of_input(const ValueInfoProto& info) const;

 private:
  Result<Dim> dim_of(const ValueInfoProto& info, std::size_t axis) const;
  Result<void> bind_constant(const ValueInfoProto& info, const HostTensor& constant);
  Result<void> bind_symbol(const ValueInfoProto& info, const std::string& symbol, std::int64_t size);

  const Model& model_;
  const ImportOptions& options_;
  std::map<std::string, std::int64_t> sizes_;
  std::map<std::string_view, const HostTensor*> overrides_;
};

}  // namespace diji::onnx
