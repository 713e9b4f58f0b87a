// A small nest as C, line by line, and the parts of the text that carry meaning.
#include "codegen/print_c.h"

#include "codegen/lower.h"
#include "codegen/nest_builder.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

bool declares(const KernelText& text, std::string_view part) {
  for (const std::string& declaration : text.declarations) {
    if (declaration.find(part) != declaration.npos) return true;
  }
  return false;
}

TEST_CASE("a small nest") {
  LoopNest nest{.entry = "half", .places = {DType::f32, DType::f32}, .grid = 1};
  NestBuilder b(nest);
  const Reg size = b.dim(Dim::symbol("N"));
  b.for_each(b.integer(0), size, b.integer(2), [&](Reg first) {
    const Reg lanes = b.lane_numbers({DType::i64, 2});  // one after the other: registers are counted
    const Reg mask = b.less(lanes, b.splat(b.subtract(size, first), 2));
    const Reg x = b.load({.place = 0, .index = first, .mask = mask}, {DType::f32, 2});
    b.store({.place = 1, .index = first}, b.multiply(x, b.real(0.5, {DType::f32, 2})));
  });
  const KernelText text = print_c(nest);
  EXPECT(text.function ==
         R"(void half(void *const *places, const i64 *sizes, void *error_word, void *scratch,
    i64 begin, i64 end) {
  void *const place0 = places[0];
  void *const place1 = places[1];
  const i64 size0 = sizes[0];
  const i64 size1 = sizes[1];
  for (i64 grid = begin; grid < end; ++grid) {
    for (i64 r3 = 0LL; r3 < size0; r3 += 2LL) {
      const i64 r5 = size0 - r3;
      const i64x2 r6 = i64x2_splat(r5);
      const i64x2 r7 = (i64x2)(((i64x2){0, 1}) < r6);
      const f32x2 r8 = f32x2_load_masked((const f32 *)place0 + r3, i32x2_from_i64x2(r7));
      const f32x2 r10 = r8 * f32x2_splat(0x1p-1f);
      f32x2_store((f32 *)place1 + r3, r10);
    }
  }
}
)");
  EXPECT(declares(text, "for (int l = 0; l < 2; ++l) if (m[l]) x[l] = p[l];"));
  EXPECT(declares(text, "{ return __builtin_convertvector(x, i32x2); }"));
}

TEST_CASE("values that a loop exchanges change at once") {
  LoopNest nest{.entry = "swap", .places = {DType::i64}, .grid = 1};
  NestBuilder b(nest);
  const std::vector<Reg> last =
      b.loop(b.integer(0), b.dim(Dim::symbol("N")), b.integer(1), {b.integer(3), b.integer(-4)},
             [&](Reg, std::span<const Reg> carried) { return std::vector<Reg>{carried[1], carried[0]}; });
  b.store({.place = 0, .index = b.integer(0)}, last[0]);
  const std::string text = print_c(nest).function;
  const std::size_t kept = text.find("const i64 next_r8 = r6;"), set = text.find("      r6 = next_r6;");
  CAPTURE(text);
  EXPECT(kept != text.npos);
  EXPECT(set != text.npos);
  EXPECT(kept < set);
  EXPECT(text.find("i64 r8 = (-4LL);") != text.npos);
}

TEST_CASE("memory of every dtype can be fetched ahead") {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::u8}) {
    LoopNest nest{.entry = "ahead", .places = {dtype}, .grid = 1};
    NestBuilder b(nest);
    b.prefetch({.place = 0, .index = b.integer(8)}, dtype);
    const KernelText text = print_c(nest);
    CAPTURE(text.function);
    EXPECT(text.function.find(fmt::format("(const {} *)place0", name_of(dtype))) != std::string::npos);
    EXPECT(declares(text, fmt::format(" {};", name_of(dtype))));
  }
}

TEST_CASE("kernels of one module declare each thing once") {
  const auto printed = [](const char* entry) {
    LoopNest nest{.entry = entry, .places = {DType::f32}, .grid = 1};
    NestBuilder b(nest);
    const Reg x = b.load({.place = 0, .index = b.integer(0)}, {DType::f32, 4});
    b.store({.place = 0, .index = b.integer(0)}, b.unary(NestOp::floor, x));
    return print_c(nest);
  };
  const std::vector<KernelText> kernels = {printed("one"), printed("two")};
  const std::string text = module_text(kernels), definition = "f32x4 f32x4_floor(f32x4 a) {";
  const std::size_t found = text.find(definition);
  REQUIRE(found != text.npos);
  EXPECT(text.find(definition, found + 1) == text.npos);
  EXPECT(text.find("void one(") < text.find("void two("));
}

}  // namespace
}  // namespace diji
