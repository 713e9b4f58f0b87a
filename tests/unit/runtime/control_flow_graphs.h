// Graphs in which the host decides: branches, loops and sizes from data, for all tests that need some.
#pragma once

#include <string_view>

namespace diji::test {

inline constexpr std::string_view kBranches = R"(graph "branches" {
  symbol N in [0, 1000]
  input %c "c" : bool[]
  input %x "x" : f32[N]
  %w = prim.add(%x, %x)
  %y, %s = prim.conditional(%c, %w, %x) graph "then" {
    input %0 "w" : f32[N]
    input %1 "x" : f32[N]
    %2 = prim.concatenate(%0, %1) {axis = 0}
    %3 = prim.multiply(%2, %2)
    %4 = prim.reduce(%0) {axes = ints[0], kind = "sum"}
    output "y" = %3
    output "s" = %4
  } graph "else" {
    input %0 "w" : f32[N]
    input %1 "x" : f32[N]
    %2 = constant f32[] {7.5}
    output "y" = %0
    output "s" = %2
  }
  %z = prim.add(%y, %y)
  output "z" = %z
  output "s" = %s
  output "y" = %y
  output "x" = %x
})";

inline constexpr std::string_view kGrowing = R"(graph "growing" {
  symbol N in [0, 1000]
  symbol K in [0, 100000]
  input %m "m" : i64[]
  input %x "x" : f32[N]
  %y, %s, %t = prim.loop(%m, _, %x, %x) {carried = 1, conditional = 0, scanned = 0} graph "body" {
    symbol K in [0, 100000]
    input %i "i" : i64[]
    input %a "a" : f32[K]
    input %x "x" : f32[N]
    %b = prim.concatenate(%a, %x) {axis = 0}
    %t = prim.add(%i, %i)
    output "a" = %b
    output "twice" = %t
    output "x" = %x
  }
  %z = prim.add(%y, %y)
  output "z" = %z
  output "y" = %y
  output "s" = %s
  output "t" = %t
})";

inline constexpr std::string_view kUntil = R"(graph "until" {
  symbol T in [0, 1000]
  input %x "x" : f32[T, 2]
  input %end "end" : f32[2]
  input %first "first" : bool[]
  %zero = constant f32[2] {0.0, 0.0}
  %y, %w, %s = prim.loop(_, %first, %zero, %end, %x, %end) {carried = 2, conditional = 1, scanned = 1}
  graph "body" {
    input %i "i" : i64[]
    input %sum "sum" : f32[2]
    input %old "old" : f32[2]
    input %row "row" : f32[2]
    input %end "end" : f32[2]
    %next = prim.add(%sum, %row)
    %same = prim.equal(%row, %end)
    %no = constant bool[2] {0, 0}
    %other = prim.equal(%same, %no)
    %start = prim.slice(%other) {size = dims[1], start = dims[0], step = ints[1]}
    output "condition" = %start
    output "next" = %next
    output "sum" = %sum
    output "row" = %next
  }
  output "y" = %y
  output "w" = %w
  output "s" = %s
})";

// Two loops in each other; the inner one captures from both levels and swaps what it carries.
inline constexpr std::string_view kTwoLevels = R"(graph "two levels" {
  symbol A in [0, 1000]
  symbol B in [0, 1000]
  input %x "x" : f32[A, B]
  input %w "w" : f32[B]
  input %v "v" : f32[B]
  %p, %q, %s = prim.loop(_, _, %w, %v, %x, %w) {carried = 2, conditional = 0, scanned = 1} graph "outer" {
    input %i "i" : i64[]
    input %p "p" : f32[B]
    input %q "q" : f32[B]
    input %row "row" : f32[B]
    input %w "w" : f32[B]
    %three = constant i64[] {3}
    %a, %b, %t = prim.loop(%three, _, %p, %q, %row, %w) {carried = 2, conditional = 0, scanned = 0}
    graph "inner" {
      input %j "j" : i64[]
      input %a "a" : f32[B]
      input %b "b" : f32[B]
      input %row "row" : f32[B]
      input %w "w" : f32[B]
      %half = constant f32[] {0.5}
      %h = prim.reshape(%half) {shape = dims[1]}
      %g = prim.broadcast(%h) {shape = dims[B]}
      %c = prim.multiply(%a, %g)
      %d = prim.add(%c, %row)
      %e = prim.add(%d, %w)
      output "b" = %b
      output "a" = %e
      output "sum" = %d
    }
    %u = prim.reduce(%t) {axes = ints[0], kind = "sum"}
    output "a" = %a
    output "b" = %b
    output "u" = %u
  }
  output "p" = %p
  output "q" = %q
  output "s" = %s
})";

// A cell over three scanned inputs, as recurrent layers have it.
inline constexpr std::string_view kScan = R"(graph "scan" {
  symbol T in [0, 100000]
  symbol N in [0, 1000]
  input %x "x" : f32[T, N, 8]
  input %y "y" : f32[T, N, 8]
  input %m "m" : f32[T, N, 1]
  input %r "r" : f32[8, 8]
  input %h0 "h0" : f32[N, 8]
  %h, %all = prim.loop(_, _, %h0, %x, %y, %m, %r) {carried = 1, conditional = 0, scanned = 3} graph "cell" {
    input %i "i" : i64[]
    input %h "h" : f32[N, 8]
    input %x "x" : f32[N, 8]
    input %y "y" : f32[N, 8]
    input %m "m" : f32[N, 1]
    input %r "r" : f32[8, 8]
    %d = prim.dot_general(%h, %r) {
      lhs_batch = ints[], lhs_contracting = ints[1], rhs_batch = ints[], rhs_contracting = ints[0]}
    %a = prim.add(%d, %x)
    %t = prim.tanh(%a)
    %k = prim.broadcast(%m) {shape = dims[N, 8]}
    %b = prim.multiply(%t, %k)
    %c = prim.multiply(%b, %y)
    output "h" = %c
    output "all" = %c
  }
  output "h" = %h
  output "all" = %all
})";

inline constexpr std::string_view kObserved = R"(graph "observed" {
  symbol N in [0, 100000]
  symbol "#0" in [-1000, 1000]
  symbol "#1" in [-1000, 1000]
  input %x "x" : f32[N]
  input %shape "shape" : i64[2]
  %one = constant i64[2] {1, 0}
  %sum = prim.add(%shape, %one)
  %twice = prim.add(%x, %x)
  %known = prim.observe(%sum) {symbols = dims["#0", "#1"]}
  %y = prim.reshape(%twice) {shape = dims["#0", "#1"]}
  %z = prim.reduce(%y) {axes = ints[0], kind = "sum"}
  %d = prim.dims() {dtype = i64, elements = dims["#0 + #1"]}
  output "y" = %y
  output "z" = %z
  output "known" = %known
  output "x" = %x
})";

// Positions of true elements, in the model itself, in a branch and in every iteration of a loop.
inline constexpr std::string_view kCounted = R"(graph "counted" {
  symbol N in [0, 100000]
  symbol T in [0, 1000]
  symbol "#0" in [0, 100000]
  input %x "x" : f32[N]
  input %keys "keys" : f32[T, 1]
  input %c "c" : bool[]
  %zero = constant f32[] {0.0}
  %one = prim.reshape(%zero) {shape = dims[1]}
  %wide = prim.broadcast(%one) {shape = dims[N]}
  %mask = prim.less(%wide, %x)
  %at = prim.compact(%mask) {symbols = dims["#0"]}
  %picked = prim.gather(%x, %at) {outside = "error"}
  %sum = prim.reduce(%picked) {axes = ints[0], kind = "sum"}
  %counts = prim.loop(_, _, %keys, %x) {carried = 0, conditional = 0, scanned = 1} graph "body" {
    symbol "#5" in [0, 100000]
    input %i "i" : i64[]
    input %key "key" : f32[1]
    input %x "x" : f32[N]
    %wide = prim.broadcast(%key) {shape = dims[N]}
    %mask = prim.less(%wide, %x)
    %at = prim.compact(%mask) {symbols = dims["#5"]}
    %n = prim.dims() {dtype = i64, elements = dims["#5"]}
    %picked = prim.gather(%x, %at) {outside = "error"}
    %sum = prim.reduce(%picked) {axes = ints[0], kind = "max"}
    output "n" = %n
  }
  %b = prim.conditional(%c, %x, %mask) graph "then" {
    symbol "#6" in [0, 100000]
    input %x "x" : f32[N]
    input %mask "mask" : bool[N]
    %at = prim.compact(%mask) {symbols = dims["#6"]}
    output "at" = %at
  } graph "else" {
    input %x "x" : f32[N]
    input %mask "mask" : bool[N]
    %none = constant i64[1] {-1}
    output "at" = %none
  }
  output "at" = %at
  output "picked" = %picked
  output "sum" = %sum
  output "counts" = %counts
  output "b" = %b
})";

}  // namespace diji::test
