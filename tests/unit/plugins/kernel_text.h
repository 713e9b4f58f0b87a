// Kernels written by hand in LLVM IR, for tests of what compiles, loads and launches them.
#pragma once

#include <string_view>

namespace diji::test {

/// add: c[i] = a[i] + b[i] for 16 elements an index, the tail masked; sizes[0] is the element count.
/// count: places[0][i] += 1 as i32, and the local scratch of 64 bytes is overwritten.
/// report: the first index that is 13 modulo 100 writes itself into the error word.
/// where: places[0][i] = the address of the local scratch that index i ran with.
/// round: y[i] = floor, rint and fma of x[i], through half and bfloat: what needs host functions without
/// SSE4.1.
inline constexpr std::string_view kKernels = R"(
declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, i32, <16 x i1>)
declare float @llvm.floor.f32(float)
declare float @llvm.rint.f32(float)
declare float @llvm.fma.f32(float, float, float)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define void @add(ptr %places, ptr %sizes, ptr %error, ptr %local, i64 %begin, i64 %end) {
entry:
  %a = load ptr, ptr %places
  %pb = getelementptr ptr, ptr %places, i64 1
  %b = load ptr, ptr %pb
  %pc = getelementptr ptr, ptr %places, i64 2
  %c = load ptr, ptr %pc
  %n = load i64, ptr %sizes
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %base = mul i64 %i, 16
  %left = sub i64 %n, %base
  %left.one = insertelement <16 x i64> poison, i64 %left, i64 0
  %left.all = shufflevector <16 x i64> %left.one, <16 x i64> poison, <16 x i32> zeroinitializer
  %mask = icmp slt <16 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9, i64 10,
                               i64 11, i64 12, i64 13, i64 14, i64 15>, %left.all
  %ai = getelementptr float, ptr %a, i64 %base
  %bi = getelementptr float, ptr %b, i64 %base
  %ci = getelementptr float, ptr %c, i64 %base
  %x = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %ai, i32 4, <16 x i1> %mask,
                                                     <16 x float> zeroinitializer)
  %y = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %bi, i32 4, <16 x i1> %mask,
                                                     <16 x float> zeroinitializer)
  %z = fadd <16 x float> %x, %y
  call void @llvm.masked.store.v16f32.p0(<16 x float> %z, ptr %ci, i32 4, <16 x i1> %mask)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @count(ptr %places, ptr %sizes, ptr %error, ptr %local, i64 %begin, i64 %end) {
entry:
  %a = load ptr, ptr %places
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  call void @llvm.memset.p0.i64(ptr align 64 %local, i8 1, i64 64, i1 false)
  %p = getelementptr i32, ptr %a, i64 %i
  %old = load i32, ptr %p
  %one8 = load i8, ptr %local
  %one = zext i8 %one8 to i32
  %new = add i32 %old, %one
  store i32 %new, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @report(ptr %places, ptr %sizes, ptr %error, ptr %local, i64 %begin, i64 %end) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %step ]
  %rest = urem i64 %i, 100
  %bad = icmp eq i64 %rest, 13
  br i1 %bad, label %write, label %step
write:
  %high = shl i64 %i, 32
  %word = or i64 %high, 1
  %pair = cmpxchg ptr %error, i64 0, i64 %word monotonic monotonic
  br label %step
step:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @where(ptr %places, ptr %sizes, ptr %error, ptr %local, i64 %begin, i64 %end) {
  %a = load ptr, ptr %places
  %p = getelementptr ptr, ptr %a, i64 %begin
  store ptr %local, ptr %p
  ret void
}

define void @round(ptr %places, ptr %sizes, ptr %error, ptr %local, i64 %begin, i64 %end) {
entry:
  %a = load ptr, ptr %places
  %pb = getelementptr ptr, ptr %places, i64 1
  %b = load ptr, ptr %pb
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %pa
  %down = call float @llvm.floor.f32(float %x)
  %near = call float @llvm.rint.f32(float %x)
  %f = call float @llvm.fma.f32(float %down, float %near, float %x)
  %h = fptrunc float %f to half
  %hf = fpext half %h to float
  %g = fptrunc float %x to bfloat
  %gf = fpext bfloat %g to float
  %y = fadd float %hf, %gf
  %out = getelementptr float, ptr %b, i64 %i
  store float %y, ptr %out
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
)";

/// Reads a table through the address table, calls another function and a host function, jumps through a table
/// and has zeroed memory: all the kinds of references that the loader knows.
inline constexpr std::string_view kReferences = R"(
@table = constant [4 x i32] [i32 10, i32 20, i32 30, i32 40]
@pointers = private constant [2 x ptr] [ptr @twice, ptr @entry]
@zeroed = private global [64 x i32] zeroinitializer, align 64
declare double @fmod(double, double)
define i32 @twice(i32 %x) noinline {
  %y = add i32 %x, %x
  ret i32 %y
}
define void @entry(ptr %places, ptr %sizes, ptr %error, ptr %local, i64 %begin, i64 %end) {
  %out = load ptr, ptr %places
  %p = getelementptr [4 x i32], ptr @table, i64 0, i64 %begin
  %x = load i32, ptr %p
  %f = load ptr, ptr @pointers
  %y = call i32 %f(i32 %x)
  %d = sitofp i32 %y to double
  %m = call double @fmod(double %d, double 7.0)
  %z = fptosi double %m to i32
  %q = getelementptr [64 x i32], ptr @zeroed, i64 0, i64 %begin
  %w = load i32, ptr %q
  %s = add i32 %z, %w
  %c = call i32 @choose(i64 %begin)
  %sc = add i32 %s, %c
  store i32 %sc, ptr %out
  ret void
}
define internal i32 @choose(i64 %i) noinline {
  switch i64 %i, label %other [ i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d
                                i64 4, label %e  i64 5, label %f ]
a:
  ret i32 100
b:
  %twice = call i32 @twice(i32 100)
  ret i32 %twice
c:
  ret i32 300
d:
  ret i32 400
e:
  %first = load i32, ptr @table
  ret i32 %first
f:
  store i32 1, ptr @zeroed
  ret i32 1
other:
  ret i32 0
}
)";

}  // namespace diji::test
