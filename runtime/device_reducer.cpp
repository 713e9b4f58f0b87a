// Kernels of two operands, launched as a model's only step is.
#include "runtime/device_reducer.h"

#include "base/host_memory.h"
#include "graph/builder.h"
#include "runtime/compiler.h"

#include <array>
#include <cstring>
#include <optional>

namespace diji {
namespace {

using collective::ElementType;

std::optional<Primitive> step_of(collective::Reduction reduction) {
  switch (reduction) {
    case collective::Reduction::sum:
    case collective::Reduction::average:
    case collective::Reduction::premul_sum: return Primitive::add;
    case collective::Reduction::product: return Primitive::multiply;
    case collective::Reduction::min: return Primitive::minimum;
    case collective::Reduction::max: return Primitive::maximum;
    case collective::Reduction::bit_and: return Primitive::bit_and;
    case collective::Reduction::bit_or: return Primitive::bit_or;
    case collective::Reduction::bit_xor: return Primitive::bit_xor;
    default: return std::nullopt;
  }
}

// The house's dtypes have the same numbers; behind them are types that only travel.
std::optional<DType> dtype_of(ElementType type) {
  if (type == ElementType::boolean || static_cast<std::size_t>(type) >= kDTypeCount) return std::nullopt;
  return static_cast<DType>(type);
}

bool overlap(const std::byte* a, std::int64_t a_bytes, const std::byte* b, std::int64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

// Host memory as places of the device, for the length of a call.
class DeviceReducer::Operands {
 public:
  Operands(DeviceReducer& reducer) : reducer_(reducer) {}
  ~Operands() {
    const auto& table = reducer_.device_.plugin().table();
    (void)table.stream_sync(reducer_.stream_.handle());
    for (std::size_t i = 0; i < imported_.size(); ++i) {
      if (imported_[i] != nullptr) table.free(reducer_.device_.handle(), nullptr, imported_[i]);
    }
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  Result<void> add(std::span<const std::byte> memory, bool is_read) {
    const std::size_t i = count_++;
    Device& device = reducer_.device_;
    if (device.info().host_visible) {
      const diji_status status = device.plugin().table().import_host(
          device.handle(), memory.data(), memory.size(), nullptr, nullptr, &imported_[i]);
      if (status == DIJI_OK) {
        places_[i] = {imported_[i], 0};
        return {};
      }
      imported_[i] = nullptr;
    }
    copies_[i] = TRY(device.default_pool().allocate(memory.size()));
    places_[i] = copies_[i].place();
    return is_read ? reducer_.stream_.copy_to_device(places_[i], memory) : Result<void>{};
  }
  /// Waits for the result, which was added last.
  Result<void> take(std::span<std::byte> result) {
    if (imported_[count_ - 1] == nullptr) TRY(reducer_.stream_.copy_to_host(result, places_[count_ - 1]));
    return reducer_.stream_.sync();
  }
  std::span<const diji_place> places() const { return {places_.data(), count_}; }

 private:
  DeviceReducer& reducer_;
  std::size_t count_ = 0;
  std::array<diji_buffer*, 3> imported_{};
  std::array<Buffer, 3> copies_;
  std::array<diji_place, 3> places_{};
};

Result<std::unique_ptr<DeviceReducer>> DeviceReducer::create(Device& device, CompileCache& cache) {
  if (device.info().dialect.empty())
    return fail(ErrorCode::unsupported, "{} compiles no kernels, so it combines nothing", device.name());
  Stream stream = TRY(device.new_stream());
  Buffer error_word = TRY(device.default_pool().allocate(sizeof(std::uint64_t)));
  const std::uint64_t none = 0;
  TRY(stream.copy_to_device(error_word.place(), std::as_bytes(std::span(&none, 1))));
  TRY(stream.sync());
  return std::unique_ptr<DeviceReducer>(
      new DeviceReducer(device, cache, std::move(stream), std::move(error_word)));
}

Result<std::shared_ptr<const Executable>> DeviceReducer::kernel(const Key& key) {
  if (const auto known = kernels_.find(key); known != kernels_.end()) return known->second;
  const auto& [reduction, accumulator, left, right] = key;
  Graph graph;
  const Dim count = Dim::symbol("n");
  const ValueId a = graph.add_input("left", {left, {count}}), b = graph.add_input("right", {right, {count}});
  Builder builder(graph);
  graph.add_output("target", builder.map(*step_of(reduction),
                                         {builder.convert(a, accumulator), builder.convert(b, accumulator)}));
  TRY(builder.status());
  auto executable = TRY(compile(std::move(graph), device_, cache_, {}));
  const auto& segments = executable->programs[0].segments;
  CHECK(segments.size() == 1 && segments[0].steps.size() == 1, "two operands are combined by one kernel");
  return kernels_.emplace(key, std::move(executable)).first->second;
}

Result<void> DeviceReducer::launch(const Executable& executable, std::span<const diji_place> places,
                                   std::int64_t count) {
  const Program& program = executable.programs[0];
  const Step& step = program.segments[0].steps[0];
  std::vector<diji_place> ordered;  // as the kernel takes them: left, right and target in any order
  for (const std::size_t storage : step.storages) {
    const bool left = storage == program.storage(program.graph->inputs()[0].value);
    const bool right = storage == program.storage(program.graph->inputs()[1].value);
    ordered.push_back(places[left ? 0 : right ? 1 : 2]);
  }
  const Bindings bindings = {{"n", count}};
  std::vector<std::int64_t> sizes = TRY(evaluate(step.sizes, bindings));
  sizes.push_back(step.number);
  diji_launch launch{};
  launch.struct_size = sizeof(launch);
  launch.entry = step.entry.c_str();
  launch.grid = TRY(step.grid.evaluate(bindings));
  launch.places = ordered.data();
  launch.place_count = static_cast<std::uint32_t>(ordered.size());
  launch.sizes = sizes.data();
  launch.size_count = static_cast<std::uint32_t>(sizes.size());
  launch.error_word = error_word_.place();
  launch.local_bytes = static_cast<std::uint64_t>(TRY(step.local_bytes.evaluate(bindings)));
  launch.flops = static_cast<std::uint64_t>(TRY(step.flops.evaluate(bindings)));
  launch.bytes = static_cast<std::uint64_t>(TRY(step.bytes.evaluate(bindings)));
  return (*executable.modules)[step.module].launch(stream_, launch);
}

Result<void> DeviceReducer::combine(collective::Reduction reduction, ElementType accumulator,
                                    std::byte* target, collective::Operand left, collective::Operand right,
                                    std::int64_t count) {
  if (count == 0) return {};
  const auto to = dtype_of(accumulator), a = dtype_of(left.type), b = dtype_of(right.type);
  const std::scoped_lock lock(mutex_);
  if (!step_of(reduction) || !to || !a || !b) {
    ++on_host_;
    collective::combine(reduction, accumulator, target, left, right, count);
    return {};
  }
  ++on_device_;
  return with_host_memory([&]() -> Result<void> {
    const auto executable = TRY(kernel({reduction, *to, *a, *b}));
    const std::int64_t bytes = count * bytes_of(*to);
    const std::int64_t left_bytes = count * bytes_of(*a), right_bytes = count * bytes_of(*b);
    const bool apart =
        overlap(target, bytes, left.data, left_bytes) || overlap(target, bytes, right.data, right_bytes);
    if (apart) apart_.resize(static_cast<std::size_t>(bytes));
    const std::span result(apart ? apart_.data() : target, static_cast<std::size_t>(bytes));
    Operands operands(*this);
    TRY(operands.add({left.data, static_cast<std::size_t>(left_bytes)}, true));
    TRY(operands.add({right.data, static_cast<std::size_t>(right_bytes)}, true));
    TRY(operands.add(result, false));
    TRY(launch(*executable, operands.places(), count));
    TRY(operands.take(result));
    if (apart) std::memcpy(target, result.data(), result.size());
    return {};
  });
}

}  // namespace diji
