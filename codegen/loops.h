// Shared shapes of loops: merging axes, splitting a grid, full vectors with a masked tail.
#pragma once

#include "codegen/kernel_body.h"
#include "codegen/lower.h"
#include "codegen/nest_builder.h"
#include "codegen/scalar.h"

#include <functional>
#include <vector>

namespace diji {

/// Loop axes with the accesses made inside. Axes merge only within a group (batch, row, column, folded, …).
struct LoopAxes {
  Shape sizes;
  std::vector<int> groups;
  std::vector<Access*> accesses;

  /// Drops axes of size 1 and merges neighbours that every access walks as one. Fewer axes mean longer
  /// vectors and fewer divisions; with symbolic sizes this works because strides are exact expressions.
  void collapse();
  std::vector<std::size_t> of_group(int group) const;
};

/// Pointers to all functions of the coordinates in it.
void collect_accesses(ScalarProgram& program, std::vector<Access*>& accesses);

Dim ceil_div(const Dim& a, const Dim& b);

/// Splits `index` into coordinates of `sizes`, row-major.
std::vector<Reg> split_index(NestBuilder& b, Reg index, const std::vector<Dim>& sizes);

/// body(first, mask) for all vectors of [start, end): full ones without a mask, then one masked tail if there
/// is one. `carried` goes through every call.
std::vector<Reg> vector_loop(
    NestBuilder& b, Reg start, Reg end, int lanes, std::vector<Reg> carried,
    const std::function<std::vector<Reg>(Reg first, Reg mask, std::span<const Reg> carried)>& body);

/// Lanes of one vector register for this dtype.
int lanes_for(const DeviceTraits& traits, DType dtype);

/// a·b + c in the register's own class: fused for floats, wrapping for integers.
Reg multiply_add(NestBuilder& b, Reg a, Reg x, Reg c);

LoopNest new_nest(const Graph& body, std::string entry);
Result<Kernel> finish(LoopNest nest, const DeviceTraits& traits);

Result<Kernel> lower_map(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                         std::string entry);
Result<Kernel> lower_part(const Graph& body, const KernelBody& kernel, std::size_t part,
                          const DeviceTraits& traits, std::string entry);
Result<Kernel> lower_reduce(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                            std::string entry);
Result<Kernel> lower_dot(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                         std::string entry);
/// Which place of a kernel the value of its body is: its input number.
int place_of(const Graph& body, ValueId id);

/// One channel a group and few filters for each.
bool is_depthwise(const Graph& body, const KernelBody& kernel);
Result<Kernel> lower_depthwise(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                               std::string entry);
Result<Kernel> lower_arg_reduce(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                                std::string entry);
Result<Kernel> lower_scan(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                          std::string entry);
Result<Kernel> lower_sort(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                          std::string entry);
Result<Kernel> lower_compact(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                             std::string entry);
/// The updates alone; x is in the output already.
Result<Kernel> lower_scatter(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                             std::string entry);
Result<Kernel> lower_convolution(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                                 std::string entry);

}  // namespace diji
