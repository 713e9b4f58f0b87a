// Positions of the true elements, in order.
#include "codegen/lane_group.h"
#include "codegen/loops.h"

namespace diji {
namespace {

struct CompactLowering {
  CompactLowering(const Graph& body, const KernelBody& kernel, std::string entry)
      : program(kernel.programs[0]), nest(new_nest(body, std::move(entry))), b(nest) {
    nest.places.push_back(DType::i64);
    axes.sizes = kernel.space;
    axes.groups.assign(axes.sizes.size(), 0);
    collect_accesses(program, axes.accesses);
    axes.collapse();
  }

  // One pass over all of them. Every position is written where the next true element goes, and stays if the
  // element is true: no branch to guess.
  void in_order() {
    nest.grid = 1;
    const Reg zero = b.integer(0);
    store_count(write(zero, b.dim(element_count(axes.sizes)), zero, false));
  }

  // A piece for each lane of a SIMT group: how many are true in it, and then where those before it end.
  void by_group() {
    nest.grid = LaneGroup::kLanes;
    LaneGroup group(b, b.grid_index());
    const Dim size = element_count(axes.sizes), piece = ceil_div(size, Dim(LaneGroup::kLanes));
    const Reg first = b.multiply(group.lane(), b.dim(piece));
    const Reg end = b.minimum(b.add(first, b.dim(piece)), b.dim(size)), zero = b.integer(0);
    const Reg own = b.loop(first, end, b.integer(1), {zero}, [&](Reg i, std::span<const Reg> carried) {
      return std::vector<Reg>{add(carried[0], truth(i))};
    })[0];
    const Reg last = write(first, end, group.before(NestOp::add, zero, own), true);
    b.when(b.equal(group.lane(), b.integer(LaneGroup::kLanes - 1)), [&] { store_count(last); });
  }

  Reg truth(Reg i) { return evaluate(b, program, {split_index(b, i, axes.sizes), std::nullopt, 1}); }
  Reg add(Reg count, Reg truth) { return b.add(count, b.convert(truth, DType::i64)); }
  // Of elements [first, end), from place `to` on; the place behind the last one.
  Reg write(Reg first, Reg end, Reg to, bool others_write) {
    return b.loop(first, end, b.integer(1), {to}, [&](Reg i, std::span<const Reg> carried) {
      const Reg is_true = truth(i);
      b.store({.place = out(), .index = carried[0], .mask = others_write ? is_true : Reg::none}, i);
      return std::vector<Reg>{add(carried[0], is_true)};
    })[0];
  }
  void store_count(Reg count) { b.store({.place = out() + 1, .index = b.integer(0)}, count); }
  int out() const { return static_cast<int>(nest.places.size()) - 2; }

  ScalarProgram program;
  LoopAxes axes{};

  LoopNest nest;
  NestBuilder b;
};

}  // namespace

Result<Kernel> lower_compact(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                             std::string entry) {
  CompactLowering lowering(body, kernel, std::move(entry));
  traits.simt ? lowering.by_group() : lowering.in_order();
  return finish(std::move(lowering.nest), traits);
}

}  // namespace diji
