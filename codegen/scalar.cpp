// Elements between registers and memory.
#include "codegen/scalar.h"

#include "codegen/conversion.h"

namespace diji {
DType register_dtype(DType storage) {
  return storage == DType::f16 || storage == DType::bf16 ? DType::f32 : storage;
}

std::string_view sentence_of_error(std::int64_t code) {
  switch (code) {
    case kErrorDivisionByZero: return "integer division by zero";
    case kErrorIndexOutOfRange: return "index out of range";
    default: return "unknown error code";
  }
}

Reg element_index(NestBuilder& b, const Access& access, const std::vector<Reg>& coordinates) {
  Reg index = b.dim(access.offset);
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    if (access.strides[i].is(0)) continue;
    index = b.add(index, b.multiply(coordinates[i], b.dim(access.strides[i])));
  }
  return index;
}

Reg lane_mask(NestBuilder& b, Reg first, Reg end, int lanes) {
  const Reg left = b.splat(b.subtract(end, first), lanes);
  return b.less(b.lane_numbers({DType::i64, lanes}), left);
}

Reg load_element(NestBuilder& b, NestBuilder::Address address, DType storage, int lanes) {
  return from_storage(b, b.load(address, {memory_dtype(storage), lanes}), storage);
}

void store_element(NestBuilder& b, NestBuilder::Address address, Reg value) {
  const DType storage = b.nest().places[static_cast<std::size_t>(address.place)];
  b.store(address, to_storage(b, value, storage));
}

Reg constant_value(NestBuilder& b, const HostTensor& constant, int lanes) {
  const LaneType type{register_dtype(constant.dtype()), lanes};
  if (is_floating(constant.dtype())) return b.real(constant.as_double(0), type);
  return b.integer(constant.as_int64()[0], type.dtype, lanes);
}

}  // namespace diji
