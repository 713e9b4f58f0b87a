// The choice of a loop shape by the body's root, and the table of printers.
#include "codegen/lower.h"

#include "codegen/loops.h"
#include "codegen/print_c.h"
#include "codegen/print_kernel_c.h"
#include "codegen/print_llvm.h"
#include "codegen/work.h"

#include <algorithm>
#include <set>

namespace diji {
namespace {

struct PrinterEntry {
  std::string_view dialect;
  KernelText (*print)(const LoopNest& nest);
};
constexpr PrinterEntry kPrinters[] = {
    {"llvm-ir", print_llvm},  {"opencl-c", print_opencl}, {"c", print_c},           {"cuda", print_simt},
    {"cuda-mma", print_simt}, {"hip", print_simt},        {"hip-mfma", print_simt},
};

// "map_add_multiply_tanh": what profiles and cache listings show.
std::string entry_name(const Graph& body, const KernelBody& kernel) {
  constexpr std::string_view kRoots[] = {"map",     "reduce",     "dot",         "convolution", "concatenate",
                                         "scatter", "arg_reduce", "prefix_scan", "sort",        "compact"};
  constexpr std::size_t kLengthMax = 60;
  std::string name(kRoots[static_cast<std::size_t>(kernel.root)]);
  std::vector<std::string_view> seen;
  for (const Node& node : body.nodes()) {
    const Primitive primitive = *primitive_of(node.op);
    const std::string_view word = node.op->name.substr(std::string_view("prim.").size());
    if (is_view(primitive) || &node == kernel.root_node || std::ranges::find(seen, word) != seen.end())
      continue;
    if (name.size() + word.size() + 1 > kLengthMax) break;
    seen.push_back(word);
    name += fmt::format("_{}", word);
  }
  return name;
}

std::vector<std::string_view> dialects() {
  std::vector<std::string_view> names;
  for (const PrinterEntry& entry : kPrinters) names.push_back(entry.dialect);
  return names;
}

}  // namespace

Result<KernelText> print_nest(const LoopNest& nest, std::string_view dialect) {
  const auto found = std::ranges::find(kPrinters, dialect, &PrinterEntry::dialect);
  if (found == std::end(kPrinters)) {
    return fail(ErrorCode::unsupported, "no printer for the kernel dialect '{}'; there are: {}", dialect,
                fmt::join(dialects(), ", "));
  }
  return found->print(nest);
}

std::string module_text(std::span<const KernelText> kernels) {
  std::set<std::string_view> written;
  std::string text;
  for (const KernelText& kernel : kernels) {
    for (const std::string& declaration : kernel.declarations) {
      if (written.insert(declaration).second) text += declaration;
    }
  }
  for (const KernelText& kernel : kernels) text += kernel.function;
  return text;
}

namespace {

Result<std::vector<Kernel>> lower_body(const Graph& body, const DeviceTraits& traits) {
  const KernelBody kernel = TRY(flatten(body));
  std::string entry = entry_name(body, kernel);
  if (kernel.root == KernelBody::Root::scatter) {
    // Part 0 is x, copied to where the updates go.
    std::vector<Kernel> kernels = {TRY(lower_part(body, kernel, 0, traits, entry))};
    kernels.push_back(TRY(lower_scatter(body, kernel, traits, std::move(entry))));
    return kernels;
  }
  if (kernel.root == KernelBody::Root::concatenate) {
    std::vector<Kernel> kernels;
    for (std::size_t part = 0; part < kernel.programs.size(); ++part)
      kernels.push_back(TRY(lower_part(body, kernel, part, traits, entry)));
    return kernels;
  }
  const auto one = [&]() -> Result<Kernel> {
    switch (kernel.root) {
      case KernelBody::Root::reduce: return lower_reduce(body, kernel, traits, std::move(entry));
      case KernelBody::Root::dot: return lower_dot(body, kernel, traits, std::move(entry));
      case KernelBody::Root::convolution: return lower_convolution(body, kernel, traits, std::move(entry));
      case KernelBody::Root::arg_reduce: return lower_arg_reduce(body, kernel, traits, std::move(entry));
      case KernelBody::Root::prefix_scan: return lower_scan(body, kernel, traits, std::move(entry));
      case KernelBody::Root::sort_indices: return lower_sort(body, kernel, traits, std::move(entry));
      case KernelBody::Root::compact: return lower_compact(body, kernel, traits, std::move(entry));
      default: return lower_map(body, kernel, traits, std::move(entry));
    }
  };
  return std::vector<Kernel>{TRY(one())};
}

}  // namespace

Result<std::vector<Kernel>> lower(const Graph& body, const DeviceTraits& traits) {
  if (traits.without_f64) {
    for (const Value& value : body.values()) {
      if (value.type.dtype == DType::f64)
        return fail(ErrorCode::unsupported, "f64, which the device cannot compute in");
    }
  }
  std::vector<Kernel> kernels = TRY(lower_body(body, traits));
  // Several launches share one computation: the first one counts it.
  if (!kernels.empty()) {
    kernels[0].flops = flops_of(body);
    kernels[0].bytes = bytes_of_places(body);
  }
  return kernels;
}

Result<PeakKernel> peak_kernel(const DeviceTraits& traits) {
  // Enough independent chains to cover a latency of 4 cycles on two units, few enough to stay in registers.
  constexpr int kChains = 12;
  const int lanes = lanes_for(traits, DType::f32);
  LoopNest nest{.entry = "peak", .places = {DType::f32}, .grid = Dim::symbol("grid")};
  NestBuilder b(nest);
  const LaneType type{DType::f32, lanes};
  std::vector<Reg> sums;
  for (int i = 0; i < kChains; ++i) sums.push_back(b.real(i, type));
  // Operands from memory, so that nothing is known when the kernel is compiled.
  const Reg factor = b.load({.place = 0, .index = b.integer(0)}, type);
  const Reg term = b.load({.place = 0, .index = b.integer(lanes)}, type);
  sums = b.loop(b.integer(0), b.dim(Dim::symbol("rounds")), b.integer(1), sums,
                [&](Reg, std::span<const Reg> carried) {
                  std::vector<Reg> next;
                  for (const Reg sum : carried) next.push_back(b.multiply_add(sum, factor, term));
                  return next;
                });
  Reg total = sums[0];
  for (std::size_t i = 1; i < sums.size(); ++i) total = b.add(total, sums[i]);
  const Reg row = b.multiply(b.add(b.grid_index(), b.integer(2)), b.integer(lanes));
  b.store({.place = 0, .index = row}, total);
  return PeakKernel{TRY(finish(std::move(nest), traits)), std::int64_t{2} * kChains * lanes};
}

}  // namespace diji
