// Rules of kernels: compiling, refusing what is no kernel, launching where and over what was asked, exactly.
#include "graph/builder.h"
#include "runtime/compiler.h"
#include "runtime/rule_bench.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace diji {
namespace {

/// y = -1 · x over n elements: exact for every float, -0, infinities and NaN too.
Graph negated() {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {Dim::symbol("n")}});
  Builder builder(graph);
  graph.add_output("y", builder.multiply(x, builder.scalar(DType::f32, -1)));
  return graph;
}

/// y = x[index]: an index out of range is reported in the error word.
Graph gathered() {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {Dim::symbol("n")}});
  const ValueId index = graph.add_input("index", {DType::i64, {Dim::symbol("m")}});
  Builder builder(graph);
  graph.add_output("y", builder.gather(x, {index}));
  return graph;
}

/// A loaded kernel and what its launches share.
struct Bench {
  static Result<Bench> of(RuleBench& bench, const Graph& graph) {
    if (bench.entry().info.dialect.empty())
      return fail(ErrorCode::unsupported, "a device without a dialect compiles no kernels");
    auto kernels = TRY(lower(graph, traits_of(bench.entry().info)));
    Bench made{bench, std::move(kernels[0]), nullptr, TRY(bench.stream()), TRY(bench.alloc(8))};
    made.module = TRY(bench.module(module_text(std::span(&made.kernel.text, 1))));
    TRY(made.clear_error());
    return made;
  }
  Result<void> clear_error() const {
    static constexpr std::array<std::byte, 8> kZero{};
    TRY(bench.upload(stream, {error_word, 0}, kZero));
    return bench.sync(stream);
  }
  diji_status launch(std::span<const diji_place> places, const Bindings& sizes_of,
                     const char* entry = nullptr, bool empty = false) const {
    std::vector<std::int64_t> sizes;
    for (const Dim& size : kernel.sizes) sizes.push_back(size.evaluate(sizes_of).value_or(-1));
    sizes.push_back(0);
    diji_launch launch{};
    launch.struct_size = sizeof(launch);
    launch.entry = entry == nullptr ? kernel.entry.c_str() : entry;
    launch.grid = empty ? 0 : kernel.grid.evaluate(sizes_of).value_or(-1);
    launch.places = places.data();
    launch.place_count = static_cast<std::uint32_t>(places.size());
    launch.size_count = static_cast<std::uint32_t>(sizes.size());
    launch.sizes = sizes.data();
    launch.error_word = {error_word, 0};
    launch.local_bytes = static_cast<std::uint64_t>(kernel.local_bytes.evaluate(sizes_of).value_or(0));
    return bench.table().launch(stream, module, &launch);
  }

  RuleBench& bench;
  Kernel kernel;
  diji_module* module;
  diji_stream* stream;
  diji_buffer* error_word;
};

// Around the widths of vectors, and enough for several threads.
constexpr std::array<std::size_t, 12> kCounts = {1, 2, 3, 15, 16, 17, 63, 64, 65, 1000, 4099, 100'003};

/// Host memory of the bench with these elements: it outlives the copies.
template <typename T>
std::span<std::byte> host_of(RuleBench& bench, const std::vector<T>& values) {
  const auto bytes = bench.host(values.size() * sizeof(T), 0);
  std::ranges::copy(std::as_bytes(std::span(values)), bytes.begin());
  return bytes;
}
template <typename T>
T element(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at * sizeof(T), sizeof(T));
  return value;
}

/// Floats that a kernel may not confuse, again and again.
std::vector<float> awkward(std::size_t count) {
  using Limits = std::numeric_limits<float>;
  constexpr std::array kValues = {0.0F,          -0.0F,  1.0F,          Limits::infinity(), -2.5F,
                                  Limits::max(), 3e-30F, Limits::min(), Limits::quiet_NaN()};
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = kValues[i % kValues.size()];
  return values;
}

Result<void> is_negated(float got, float x, std::string_view what, std::size_t at) {
  const bool right =
      std::isnan(x) ? std::isnan(got) : std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(-x);
  if (right) return {};
  return fail(ErrorCode::failed, "{}: -1 times element {}, {}, gave {}", what, at, x, got);
}

/// The kernel over n elements at an offset inside larger buffers; what is around the output stays.
Result<void> negate_at(const Bench& b, std::size_t n, std::uint64_t offset, bool in_place) {
  const std::size_t margin = 64, bytes = n * sizeof(float), whole = offset + bytes + margin;
  RuleBench& bench = b.bench;
  const auto x = TRY(bench.alloc(whole)), y = in_place ? x : TRY(bench.alloc(whole));
  const std::vector<float> values = awkward(n);
  const auto before = bench.host(whole, 1), got = bench.host(whole, 2);
  TRY(bench.upload(b.stream, {y, 0}, before));
  TRY(bench.upload(b.stream, {x, offset}, host_of(bench, values)));
  const std::array places = {diji_place{x, offset}, diji_place{y, offset}};
  TRY(bench.ok(b.launch(places, {{"n", static_cast<std::int64_t>(n)}}), "launch"));
  TRY(bench.download(b.stream, got, {y, 0}));
  TRY(bench.sync(b.stream));
  const std::string what = fmt::format("{} elements at offset {}{}", n, offset, in_place ? ", in place" : "");
  for (std::size_t i = 0; i < n; ++i) {
    TRY(is_negated(element<float>(got.subspan(offset), i), values[i], what, i));
  }
  TRY(same_bytes(got.first(offset), before.first(offset), what + ": in front of the output"));
  return same_bytes(got.last(margin), before.last(margin), what + ": behind the output");
}

Result<void> exact(RuleBench& bench) {
  const Bench b = TRY(Bench::of(bench, negated()));
  for (const std::size_t n : kCounts) {
    for (const std::uint64_t offset : {0u, 4u, 12u, 64u}) TRY(negate_at(b, n, offset, false));
  }
  return {};
}

Result<void> in_place(RuleBench& bench) {
  const Bench b = TRY(Bench::of(bench, negated()));
  for (const std::size_t n : {1u, 17u, 4099u}) TRY(negate_at(b, n, 4, true));
  return {};
}

Result<void> chain(RuleBench& bench) {
  constexpr std::size_t kCount = 10'000, kBytes = kCount * sizeof(float);
  constexpr int kLaunches = 21;
  const Bench b = TRY(Bench::of(bench, negated()));
  const std::array buffers = {TRY(bench.alloc(kBytes)), TRY(bench.alloc(kBytes))};
  const std::vector<float> values = awkward(kCount);
  TRY(bench.upload(b.stream, {buffers[0], 0}, host_of(bench, values)));
  for (std::size_t i = 0; i < kLaunches; ++i) {
    const std::array places = {diji_place{buffers[i % 2], 0}, diji_place{buffers[1 - i % 2], 0}};
    TRY(bench.ok(b.launch(places, {{"n", std::int64_t{kCount}}}), "launch"));
  }
  const auto got = bench.host(kBytes, 1);
  TRY(bench.download(b.stream, got, {buffers[1], 0}));
  TRY(bench.sync(b.stream));
  for (std::size_t i = 0; i < kCount; ++i)
    TRY(is_negated(element<float>(got, i), values[i], fmt::format("after {} launches in a row", kLaunches),
                   i));
  return {};
}

Result<void> empty_grid(RuleBench& bench) {
  const Bench b = TRY(Bench::of(bench, negated()));
  const auto x = TRY(bench.alloc(64)), y = TRY(bench.alloc(64));
  const auto before = bench.host(64, 1), got = bench.host(64, 2);
  TRY(bench.upload(b.stream, {y, 0}, before));
  const std::array places = {diji_place{x, 0}, diji_place{y, 0}};
  TRY(bench.ok(b.launch(places, {{"n", std::int64_t{16}}}, nullptr, true), "launch over an empty grid"));
  TRY(bench.download(b.stream, got, {y, 0}));
  TRY(bench.sync(b.stream));
  return same_bytes(got, before, "the output of a launch over an empty grid");
}

Result<void> unknown_entry(RuleBench& bench) {
  const Bench b = TRY(Bench::of(bench, negated()));
  const auto x = TRY(bench.alloc(64));
  const std::array places = {diji_place{x, 0}, diji_place{x, 0}};
  TRY(bench.refused(b.launch(places, {{"n", std::int64_t{16}}}, "no_such_entry"), {DIJI_ERROR_UNSUPPORTED},
                    "launch of an entry that is not there"));
  (void)bench.table().stream_sync(b.stream);
  return negate_at(b, 100, 0, false);
}

Result<void> bad_text(RuleBench& bench) {
  const Bench b = TRY(Bench::of(bench, negated()));  // not offered without a dialect
  constexpr std::string_view kText = "this is no kernel text {";
  const diji_kernel_text text = {sizeof(diji_kernel_text), kText.data(), kText.size()};
  const void* blob = nullptr;
  std::size_t bytes = 0;
  const diji_status status = bench.table().compile(bench.device(), &text, &blob, &bytes);
  if (status == DIJI_OK) bench.table().blob_free(blob);
  return bench.refused(status, {DIJI_ERROR_COMPILE}, "compile of what is no kernel text");
}

Result<void> bad_blob(RuleBench& bench) {
  const Bench b = TRY(Bench::of(bench, negated()));
  for (const std::size_t bytes : {0u, 1u, 16u, 4096u}) {
    diji_module* module = nullptr;
    const diji_status status =
        bench.table().load(bench.device(), bench.host(bytes, 3).data(), bytes, &module);
    TRY(bench.refused(status, {DIJI_ERROR_INVALID}, fmt::format("load of {} bytes of garbage", bytes)));
  }
  return negate_at(b, 100, 0, false);
}

Result<void> error_word(RuleBench& bench) {
  constexpr std::int64_t kCount = 100;
  const Bench b = TRY(Bench::of(bench, gathered()));
  const auto x = TRY(bench.alloc(kCount * sizeof(float))), y = TRY(bench.alloc(kCount * sizeof(float)));
  const auto index = TRY(bench.alloc(kCount * sizeof(std::int64_t)));
  const std::vector<float> values = awkward(kCount);
  TRY(bench.upload(b.stream, {x, 0}, host_of(bench, values)));
  const std::array places = {diji_place{x, 0}, diji_place{index, 0}, diji_place{y, 0}};
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{0}, kCount, std::int64_t{1} << 40}) {
    std::vector<std::int64_t> at(kCount, kCount - 1);
    at[57] = wrong;
    TRY(b.clear_error());
    TRY(bench.upload(b.stream, {index, 0}, host_of(bench, at)));
    TRY(bench.ok(b.launch(places, {{"n", kCount}, {"m", kCount}}), "launch"));
    const auto got = bench.host(sizeof(std::uint64_t), 1);
    TRY(bench.download(b.stream, got, {b.error_word, 0}));
    TRY(bench.sync(b.stream));
    const auto word = element<std::uint64_t>(got, 0);
    if ((word != 0) != (wrong != 0))
      return fail(ErrorCode::failed, "element {} of {}: the error word is {:#x}", wrong, kCount, word);
  }
  return {};
}

}  // namespace

std::span<const Rule> kernel_rules() {
  static constexpr std::array kRules = {
      Rule{"kernels are exact, and write their output only", exact},
      Rule{"kernels work in place", in_place},
      Rule{"kernels run in the stream's order", chain},
      Rule{"an empty grid does nothing", empty_grid},
      Rule{"an entry that is not there is refused", unknown_entry},
      Rule{"text that is no kernel is refused", bad_text},
      Rule{"a blob that is garbage is refused", bad_blob},
      Rule{"kernels report errors", error_word},
  };
  return kRules;
}

}  // namespace diji
