// Two rounds of zips: bytes of neighbouring rows become pairs, pairs become quads.
#include "codegen/quads.h"

#include <array>

namespace diji {
namespace {

constexpr int kQuad = 4;

// `inside` says, if given, whether each row exists.
void pack_one(NestBuilder& b, const ByteRows& rows, int width, Reg first, Reg to,
              const std::function<Reg(Reg row)>& inside) {
  std::array<Reg, kQuad> bytes{};
  for (int j = 0; j < kQuad; ++j) {
    const Reg row = b.add(first, b.integer(j));
    auto address = rows.place(row);
    if (inside) {
      const Reg exists = b.splat(inside(row), width);
      address.mask = address.mask == Reg::none ? exists : b.binary(NestOp::bit_and, address.mask, exists);
    }
    bytes[static_cast<std::size_t>(j)] = b.load(address, {rows.dtype, width});
  }
  const LaneType pairs{DType::u16, width / 2}, quads{DType::i32, width / kQuad};
  int stored = 0;
  for (const bool low : {true, false}) {
    const auto zip = [&](Reg x, Reg y, bool half) { return half ? b.zip_low(x, y) : b.zip_high(x, y); };
    const Reg first_pairs = b.bitcast(zip(bytes[0], bytes[1], low), pairs),
              second_pairs = b.bitcast(zip(bytes[2], bytes[3], low), pairs);
    for (const bool half : {true, false}) {
      const Reg index = b.add(to, b.integer(stored));
      b.store({.space = Space::local, .index = index, .aligned = true},
              b.bitcast(zip(first_pairs, second_pairs, half), quads));
      stored += quads.lanes;
    }
  }
}

}  // namespace

void pack_quads(NestBuilder& b, const ByteRows& rows, int width, Reg panel) {
  const Reg quad = b.integer(kQuad), one = b.integer(1), zero = b.integer(0);
  const Reg whole = b.divide(rows.count, quad);
  const auto pack = [&](Reg q, const std::function<Reg(Reg)>& inside) {
    pack_one(b, rows, width, b.multiply(q, quad), b.add(panel, b.multiply(q, b.integer(width))), inside);
  };
  b.for_each(zero, whole, one, [&](Reg q) { pack(q, {}); });
  const auto known = b.known(rows.count);
  if (known && *known % kQuad == 0) return;
  const auto rest = [&] { pack(whole, [&](Reg row) { return b.less(row, rows.count); }); };
  if (known) return rest();
  b.when(b.less(b.multiply(whole, quad), rows.count), rest);
}

}  // namespace diji
