// Shapes of records that many operators share.
#pragma once

#include "graph/op_def.h"
#include "ops/samples.h"

namespace diji {

/// y of x's shape and dtype.
constexpr OpDef unary_record(std::string_view name, std::string_view doc, DTypeSet dtypes, OnnxName onnx,
                             Values (*decompose)(Builder&, const OpCall&), std::string_view oracle) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "[...]", dtypes}},
          .outputs = {{"y", "[...]", dtypes}},
          .decompose = decompose,
          .samples = unary_samples,
          .onnx = onnx,
          .oracle = oracle};
}

/// The same with one or two real attributes.
constexpr OpDef with_attributes(OpDef record, List<AttributeDef, 18> attributes) {
  record.attributes = attributes;
  return record;
}

constexpr OpDef with_samples(OpDef record, std::vector<Sample> (*samples)(DType)) {
  record.samples = samples;
  return record;
}

}  // namespace diji
