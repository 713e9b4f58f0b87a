// Positions of the true elements: one pass in order. Every position is written where the next true element
// goes, and stays if the element is true.
#include "codegen/loops.h"

namespace diji {

Result<Kernel> lower_compact(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                             std::string entry) {
  LoopNest nest = new_nest(body, std::move(entry));
  nest.places.push_back(DType::i64);
  nest.grid = 1;
  NestBuilder b(nest);
  const int out = static_cast<int>(nest.places.size()) - 2;
  ScalarProgram program = kernel.programs[0];
  LoopAxes axes{.sizes = kernel.space};
  axes.groups.assign(axes.sizes.size(), 0);
  collect_accesses(program, axes.accesses);
  axes.collapse();
  std::vector<Reg> at(axes.sizes.size(), Reg::none);
  const Reg zero = b.integer(0), one = b.integer(1);
  const Reg count =
      b.loop(zero, b.dim(element_count(axes.sizes)), one, {zero}, [&](Reg i, std::span<const Reg> carried) {
        at = split_index(b, i, axes.sizes);
        const Reg truth = evaluate(b, program, {at, std::nullopt, 1});
        b.store({.place = out, .index = carried[0]}, i);
        return std::vector<Reg>{b.add(carried[0], b.convert(truth, DType::i64))};
      })[0];
  b.store({.place = out + 1, .index = zero}, count);
  return finish(std::move(nest), traits);
}

}  // namespace diji
