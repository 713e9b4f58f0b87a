// Running sums and products along one axis: in order, vectors across the innermost other axis where there is
// one behind the scanned axis.
#include "codegen/lane_group.h"
#include "codegen/loops.h"

namespace diji {
namespace {

enum Group : int { kKept, kScanned };

struct ScanLowering {
  ScanLowering(const Graph& body, const KernelBody& kernel, const DeviceTraits& device, std::string entry)
      : traits(device),
        product(kernel.root_node->attributes.get_or("kind", std::string{}) == "product"),
        exclusive(kernel.root_node->attributes.get_or<std::int64_t>("exclusive", 0) != 0),
        reverse(kernel.root_node->attributes.get_or<std::int64_t>("reverse", 0) != 0),
        program(kernel.programs[0]),
        epilogue(kernel.epilogue),
        dtype(body.type(kernel.root_node->outputs[0]).dtype),
        nest(new_nest(body, std::move(entry))),
        b(nest) {
    const auto along = static_cast<std::size_t>(kernel.root_node->attributes.get_or<std::int64_t>("axis", 0));
    axes.sizes = kernel.space;
    axes.groups.assign(axes.sizes.size(), kKept);
    axes.groups[along] = kScanned;
    output.strides = strides_of(kernel.space);
    collect_accesses(program, axes.accesses);
    collect_accesses(epilogue, axes.accesses);
    axes.accesses.push_back(&output);
    axes.collapse();
    if (axes.of_group(kScanned).empty()) {  // one element
      axes.sizes.insert(axes.sizes.begin(), Dim(1));
      axes.groups.insert(axes.groups.begin(), kScanned);
      for (Access* access : axes.accesses) access->strides.insert(access->strides.begin(), Dim(0));
    }
    at.assign(axes.sizes.size(), Reg::none);
    scanned = axes.of_group(kScanned)[0];
    kept = axes.of_group(kKept);
  }

  // Floats run in f64, as in a reduction.
  DType sum_dtype() const { return is_floating(dtype) ? DType::f64 : dtype; }

  void place(const std::vector<Dim>& grid) {
    nest.grid = element_count(grid);
    const auto coordinates = split_index(b, b.grid_index(), grid);
    for (std::size_t i = 0; i < kept.size(); ++i) at[kept[i]] = coordinates[i];
  }

  std::vector<Dim> kept_sizes() const {
    std::vector<Dim> sizes;
    for (const std::size_t axis : kept) sizes.push_back(axes.sizes[axis]);
    return sizes;
  }

  void run() {
    const bool across = !kept.empty() && kept.back() > scanned;
    const int lanes = lanes_for(traits, dtype);
    std::vector<Dim> grid = kept_sizes();
    if (!across && traits.simt) return by_group(std::move(grid));
    if (!across) {
      place(grid);
      line(b.integer(0), b.dim(axes.sizes[scanned]), neutral(1), std::nullopt, 1, Reg::none);
      return;
    }
    const std::size_t inner = kept.back();
    grid.back() = ceil_div(grid.back(), lanes);
    place(grid);
    const Reg start = b.multiply(at[inner], b.integer(lanes));
    const Reg end = b.minimum(b.add(start, b.integer(lanes)), b.dim(axes.sizes[inner]));
    vector_loop(b, start, end, lanes, {}, [&](Reg first, Reg mask, std::span<const Reg>) -> std::vector<Reg> {
      at[inner] = first;
      line(b.integer(0), b.dim(axes.sizes[scanned]), neutral(lanes), inner, lanes, mask);
      return {};
    });
  }

  // A line for each group of a SIMT device, a piece of it for each lane: what the pieces come to first, then
  // each piece from what stands before it.
  void by_group(std::vector<Dim> grid) {
    const Dim size = axes.sizes[scanned], piece = ceil_div(size, Dim(LaneGroup::kLanes));
    grid.emplace_back(LaneGroup::kLanes);
    nest.grid = element_count(grid);
    const auto coordinates = split_index(b, b.grid_index(), grid);
    for (std::size_t i = 0; i < kept.size(); ++i) at[kept[i]] = coordinates[i];
    LaneGroup group(b, coordinates.back());
    const Reg first = b.multiply(group.lane(), b.dim(piece));
    const Reg end = b.minimum(b.add(first, b.dim(piece)), b.dim(size));
    const Reg start = neutral(1);
    const Reg own = b.loop(first, end, b.integer(1), {start}, [&](Reg k, std::span<const Reg> carried) {
      step_to(k);
      return std::vector<Reg>{next(carried[0], {at, std::nullopt, 1})};
    })[0];
    line(first, end, group.before(combination(), start, own), std::nullopt, 1, Reg::none);
  }

  NestOp combination() const { return product ? NestOp::multiply : NestOp::add; }
  Reg neutral(int lanes) { return b.number(product ? 1 : 0, {sum_dtype(), lanes}); }
  void step_to(Reg k) {
    at[scanned] = reverse ? b.subtract(b.subtract(b.dim(axes.sizes[scanned]), b.integer(1)), k) : k;
  }
  Reg next(Reg sum, const LanePosition& position) {
    return b.binary(combination(), sum, b.convert(evaluate(b, program, position), sum_dtype()));
  }

  void line(Reg first, Reg end, Reg start, std::optional<std::size_t> vector_axis, int lanes, Reg mask) {
    b.loop(first, end, b.integer(1), {start}, [&](Reg k, std::span<const Reg> carried) {
      step_to(k);
      const LanePosition position{at, vector_axis, lanes, mask};
      const Reg sum = next(carried[0], position);
      const Reg result = b.convert(exclusive ? carried[0] : sum, register_dtype(dtype));
      const int out = static_cast<int>(nest.places.size()) - 1;
      NestBuilder::Address address{.place = out, .index = element_index(b, output, at), .mask = mask};
      store_element(b, address, evaluate(b, epilogue, position, result));
      return std::vector<Reg>{sum};
    });
  }

  const DeviceTraits& traits;
  bool product, exclusive, reverse;
  ScalarProgram program, epilogue;
  DType dtype;
  Access output{0, {}};
  LoopAxes axes{};
  std::vector<Reg> at{};
  std::vector<std::size_t> kept{};
  std::size_t scanned = 0;
  LoopNest nest;
  NestBuilder b;
};

}  // namespace

Result<Kernel> lower_scan(const Graph& body, const KernelBody& kernel, const DeviceTraits& traits,
                          std::string entry) {
  ScanLowering lowering(body, kernel, traits, std::move(entry));
  lowering.run();
  return finish(std::move(lowering.nest), traits);
}

}  // namespace diji
