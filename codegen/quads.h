// Quads: four neighbours of the contracted axis in the bytes of one 32-bit lane, as dot4 takes them.
#pragma once

#include "codegen/nest_builder.h"

#include <functional>

namespace diji {

/// Rows of bytes, one a step of the contracted axis, as quads: lane j of panel[q · width + j] (i32) holds the
/// bytes of column j of rows 4q … 4q + 3. Rows from `count` on are 0.
struct ByteRows {
  DType dtype = DType::u8;  ///< or i8
  Reg count = Reg::none;    ///< rows
  std::function<NestBuilder::Address(Reg row)>
      place;  ///< its first column; the mask, if any, is of `width` lanes
};
void pack_quads(NestBuilder& b, const ByteRows& rows, int width, Reg panel);

}  // namespace diji
