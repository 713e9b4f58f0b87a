// A small nest as LLVM IR, line by line, and the parts of the text that carry meaning.
#include "codegen/print_llvm.h"

#include "codegen/lower.h"
#include "codegen/nest_builder.h"
#include "graph/builder.h"

#include "tests/unit/expect.h"

namespace diji {
namespace {

TEST_CASE("a small nest") {
  LoopNest nest{.entry = "scale",
                .body = {},
                .registers = {},
                .places = {DType::f32, DType::f32},
                .sizes = {},
                .grid = 1};
  NestBuilder b(nest);
  const Reg size = b.dim(Dim::symbol("N"));
  b.loop(b.integer(0), size, b.integer(2), {}, [&](Reg first, std::span<const Reg>) -> std::vector<Reg> {
    const Reg lanes = b.lane_numbers({DType::i64, 2});
    const Reg mask = b.less(lanes, b.splat(b.subtract(size, first), 2));
    const Reg x = b.load({.place = 0, .index = first, .mask = mask}, {DType::f32, 2});
    const Reg half = b.real(0.5, {DType::f32, 2});
    b.store({.place = 1, .index = first, .mask = mask}, b.multiply(x, half));
    return {};
  });
  EXPECT(print_llvm(nest).function ==
         R"(define void @scale(ptr %places, ptr %sizes, ptr %error_word, ptr %local, i64 %begin, i64 %end) {
entry:
  %place.at0 = getelementptr ptr, ptr %places, i64 0
  %place0 = load ptr, ptr %place.at0
  %place.at1 = getelementptr ptr, ptr %places, i64 1
  %place1 = load ptr, ptr %place.at1
  %size.at0 = getelementptr i64, ptr %sizes, i64 0
  %size0 = load i64, ptr %size.at0
  %size.at1 = getelementptr i64, ptr %sizes, i64 1
  %size1 = load i64, ptr %size.at1
  br label %grid.head
grid.head:
  %grid = phi i64 [ %begin, %entry ], [ %grid.next, %grid.latch ]
  %grid.more = icmp slt i64 %grid, %end
  br i1 %grid.more, label %grid.body, label %grid.exit
grid.body:
  br label %loop3.head
loop3.head:
  %r3 = phi i64 [ 0, %grid.body ], [ %loop3.next, %loop3.latch ]
  %loop3.more = icmp slt i64 %r3, %size0
  br i1 %loop3.more, label %loop3.body, label %loop3.exit
loop3.body:
  %r5 = sub i64 %size0, %r3
  %t0 = insertelement <2 x i64> poison, i64 %r5, i64 0
  %t1 = shufflevector <2 x i64> %t0, <2 x i64> poison, <2 x i32> zeroinitializer
  %r7 = icmp slt <2 x i64> <i64 0, i64 1>, %t1
  %t2 = getelementptr float, ptr %place0, i64 %r3
  %r8 = call <2 x float> @llvm.masked.load.v2f32.p0(ptr %t2, i32 4, <2 x i1> %r7, <2 x float> zeroinitializer)
  %r10 = fmul <2 x float> %r8, <float 0x3FE0000000000000, float 0x3FE0000000000000>
  %t3 = getelementptr float, ptr %place1, i64 %r3
  call void @llvm.masked.store.v2f32.p0(<2 x float> %r10, ptr %t3, i32 4, <2 x i1> %r7)
  br label %loop3.latch
loop3.latch:
  %loop3.next = add nsw i64 %r3, 2
  br label %loop3.head
loop3.exit:
  br label %grid.latch
grid.latch:
  %grid.next = add nsw i64 %grid, 1
  br label %grid.head
grid.exit:
  ret void
}
)");
  EXPECT(print_llvm(nest).declarations ==
         std::vector<std::string>{
             "declare <2 x float> @llvm.masked.load.v2f32.p0(ptr, i32 immarg, <2 x i1>, <2 x float>)\n",
             "declare void @llvm.masked.store.v2f32.p0(<2 x float>, ptr, i32 immarg, <2 x i1>)\n"});
}

TEST_CASE("conditions, shuffles and hints") {
  LoopNest nest{.entry = "parts", .places = {DType::f32}, .grid = 1};
  NestBuilder b(nest);
  const Reg n = b.dim(Dim::symbol("N"));
  const Reg x = b.load({.place = 0, .index = b.integer(0)}, {DType::f32, 4});
  const Reg y = b.load({.place = 0, .index = b.integer(4)}, {DType::f32, 4});
  const std::vector<Reg> shuffled = {b.zip_low(x, y), b.zip_high(x, y), b.even_lanes(x, y)};
  b.prefetch({.place = 0, .index = n}, DType::f32);
  b.when(b.less(n, b.integer(3)), [&] { b.store({.place = 0, .index = b.integer(8)}, shuffled[0]); });
  b.when_rare(b.less(n, b.integer(2)), [&] { b.store({.place = 0, .index = b.integer(8)}, shuffled[1]); });
  const Reg each = b.multiply(b.lane_numbers({DType::i64, 4}), b.splat(n, 4));
  b.store({.place = 0, .index = b.integer(8)}, b.load({.place = 0, .index = each}, {DType::f32, 4}));
  const KernelText kernel = print_llvm(nest);
  const std::string text = module_text({&kernel, 1});
  for (const std::string part :
       {"<4 x i32> <i32 0, i32 4, i32 1, i32 5>", "<4 x i32> <i32 2, i32 6, i32 3, i32 7>",
        "<4 x i32> <i32 0, i32 2, i32 4, i32 6>", ", i32 0, i32 3, i32 1)", ".done\n", ".done, !prof !0",
        "!0 = !{!\"branch_weights\", i32 1, i32 2147483647}", "@llvm.masked.gather.v4f32.v4p0"}) {
    CAPTURE(text);
    EXPECT(text.find(part) != std::string::npos);
  }
}

TEST_CASE("equal kernels have equal texts whatever the sizes, so that one compiled kernel serves them all") {
  const auto text = [](const Dim& rows, const Dim& columns) {
    Graph body;
    Builder b(body);
    const ValueId x = body.add_input("x", {DType::f32, {rows, columns}}),
                  y = body.add_input("y", {DType::f32, {columns}});
    body.add_output("y", b.add(x, y));
    const auto kernels = lower(body, {.dialect = "llvm-ir", .vector_bytes = 32, .vector_registers = 16});
    REQUIRE(kernels);
    return module_text({&(*kernels)[0].text, 1});
  };
  EXPECT(text(Dim::symbol("N"), Dim::symbol("M")) == text(Dim::symbol("P"), Dim::symbol("Q")));
}

TEST_CASE("functions become instructions, not calls of a library") {
  const auto text = [](Primitive map, DType dtype) {
    Graph body;
    Builder b(body);
    const ValueId x = body.add_input("x", {dtype, {Dim::symbol("N")}});
    body.add_output("y", arity(map) == 1 ? b.map(map, {x}) : b.map(map, {x, x}));
    const auto kernels = lower(body, {.dialect = "llvm-ir", .vector_bytes = 32, .vector_registers = 16});
    REQUIRE(kernels);
    return module_text({&(*kernels)[0].text, 1});
  };
  const auto has = [](const std::string& all, std::string_view part) { return all.find(part) != all.npos; };
  EXPECT(has(text(Primitive::floor, DType::f32), "call <8 x float> @llvm.floor.v8f32(<8 x float> "));
  EXPECT(has(text(Primitive::ceil, DType::f64), "@llvm.ceil.v8f64"));
  EXPECT(has(text(Primitive::absolute, DType::f32), "@llvm.fabs.v8f32"));
  EXPECT(has(text(Primitive::bit_xor, DType::i32), "= xor <8 x i32> "));
  EXPECT(has(text(Primitive::bit_xor, DType::boolean), "= xor <8 x i1> "));
  EXPECT(has(text(Primitive::less, DType::boolean), "= icmp ult <8 x i1> "));
  EXPECT(has(text(Primitive::power, DType::f64), "@llvm.fma.v8f64"));
  for (const Primitive map :
       {Primitive::exp, Primitive::log, Primitive::sin, Primitive::erf, Primitive::power}) {
    CAPTURE(op_of(map).name);
    for (const std::string_view call : {"@llvm.exp", "@llvm.log", "@llvm.sin", "@llvm.pow", "@erf"})
      EXPECT_FALSE(has(text(map, DType::f32), call));
  }
}

TEST_CASE("an unknown dialect is refused with those that exist") {
  const auto text = print_nest(LoopNest{.entry = "x"}, "opencl");
  REQUIRE_FALSE(text);
  EXPECT(text.error().message ==
         "no printer for the kernel dialect 'opencl'; there are: llvm-ir, opencl-c, c, "
         "cuda, cuda-mma, hip, hip-mfma");
}

}  // namespace
}  // namespace diji
