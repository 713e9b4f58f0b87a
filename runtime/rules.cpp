// The bench that rules use, and all of them in order.
#include "runtime/rules.h"

#include "runtime/rule_bench.h"

#include <algorithm>
#include <array>
#include <utility>

namespace diji {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok: return "ok";
    case Verdict::failed: return "failed";
    default: return "not offered";
  }
}

std::byte pattern_at(std::size_t index, unsigned seed) {
  return static_cast<std::byte>((index * 7 + index / 251 + seed * 101 + 13) & 0xff);
}

Result<void> same_bytes(std::span<const std::byte> got, std::span<const std::byte> wanted,
                        std::string_view what) {
  const auto [at, expected] = std::ranges::mismatch(got, wanted);
  if (at == got.end() && expected == wanted.end()) return {};
  if (at == got.end() || expected == wanted.end())
    return fail(ErrorCode::failed, "{}: {} bytes, wanted {}", what, got.size(), wanted.size());
  return fail(ErrorCode::failed, "{}: byte {} is {:#04x}, wanted {:#04x}", what, at - got.begin(),
              static_cast<int>(*at), static_cast<int>(*expected));
}

Result<std::unique_ptr<RuleBench>> RuleBench::open(const DeviceList& devices, const DeviceEntry& entry) {
  std::unique_ptr<RuleBench> bench(new RuleBench(devices, entry));
  TRY(bench->ok(entry.plugin->table().open(entry.ordinal, devices.services(), &bench->device_), "open"));
  if (bench->device_ == nullptr) return fail(ErrorCode::failed, "open succeeded but gave no device");
  return bench;
}

RuleBench::~RuleBench() {
  if (device_ == nullptr) return;
  for (diji_stream* stream : streams_) table().stream_free(stream);
  for (diji_module* module : modules_) table().unload(module);
  for (diji_event* event : events_) table().event_free(event);
  for (diji_buffer* buffer : buffers_) table().free(device_, nullptr, buffer);
  table().close(device_);
}

Result<diji_buffer*> RuleBench::alloc(std::uint64_t bytes) {
  diji_buffer* buffer = nullptr;
  TRY(ok(table().alloc(device_, bytes, &buffer), "alloc"));
  if (buffer == nullptr) return fail(ErrorCode::failed, "alloc succeeded but gave no buffer");
  // Before it is known: one handle twice would be freed twice.
  if (std::ranges::find(buffers_, buffer) != buffers_.end())
    return fail(ErrorCode::failed, "alloc gave a buffer that is already in use");
  buffers_.push_back(buffer);
  return buffer;
}

void RuleBench::free(diji_buffer* buffer, diji_stream* stream) {
  std::erase(buffers_, buffer);
  table().free(device_, stream, buffer);
}

Result<diji_stream*> RuleBench::stream() {
  diji_stream* stream = nullptr;
  TRY(ok(table().stream_new(device_, &stream), "stream_new"));
  if (stream == nullptr) return fail(ErrorCode::failed, "stream_new succeeded but gave no stream");
  streams_.push_back(stream);
  return stream;
}

Result<diji_event*> RuleBench::event() {
  diji_event* event = nullptr;
  TRY(ok(table().event_new(device_, &event), "event_new"));
  if (event == nullptr) return fail(ErrorCode::failed, "event_new succeeded but gave no event");
  events_.push_back(event);
  return event;
}

Result<diji_module*> RuleBench::module(std::string_view text) {
  const diji_kernel_text kernel = {sizeof(diji_kernel_text), text.data(), text.size()};
  const void* blob = nullptr;
  std::size_t bytes = 0;
  TRY(ok(table().compile(device_, &kernel, &blob, &bytes), "compile"));
  if (blob == nullptr || bytes == 0) return fail(ErrorCode::failed, "compile succeeded but gave no blob");
  diji_module* module = nullptr;
  const diji_status status = table().load(device_, blob, bytes, &module);
  table().blob_free(blob);
  TRY(ok(status, "load of what compile gave"));
  if (module == nullptr) return fail(ErrorCode::failed, "load succeeded but gave no module");
  modules_.push_back(module);
  return module;
}

std::span<std::byte> RuleBench::host(std::size_t bytes, unsigned seed) {
  auto& block = host_.emplace_back(bytes);
  for (std::size_t i = 0; i < bytes; ++i) block[i] = pattern_at(i, seed);
  return block;
}

Result<void> RuleBench::ok(diji_status status, std::string_view call) const {
  if (status == DIJI_OK) return {};
  const auto code = status == DIJI_ERROR_UNSUPPORTED ? ErrorCode::unsupported : ErrorCode::failed;
  return fail(code, "{} failed with status {}: {}", call, status, entry_.plugin->last_error(status));
}

Result<void> RuleBench::refused(diji_status status, std::initializer_list<diji_status> wanted,
                                std::string_view call) const {
  if (std::ranges::find(wanted, status) == wanted.end())
    return fail(ErrorCode::failed, "{} gave status {}, wanted {}", call, status, fmt::join(wanted, " or "));
  const char* sentence = table().last_error();
  if (sentence != nullptr && *sentence != '\0') return {};
  return fail(ErrorCode::failed, "{} gave status {}, and last_error says nothing", call, status);
}

Result<void> RuleBench::upload(diji_stream* stream, diji_place dst, std::span<const std::byte> src) const {
  return ok(table().copy_to_device(stream, dst, src.data(), src.size()), "copy_to_device");
}
Result<void> RuleBench::download(diji_stream* stream, std::span<std::byte> dst, diji_place src) const {
  return ok(table().copy_to_host(stream, dst.data(), src, dst.size()), "copy_to_host");
}
Result<void> RuleBench::copy(diji_stream* stream, diji_place dst, diji_place src, std::uint64_t bytes) const {
  return ok(table().copy_on_device(stream, dst, src, bytes), "copy_on_device");
}
Result<void> RuleBench::sync(diji_stream* stream) const { return ok(table().stream_sync(stream), "sync"); }

namespace {

Result<void> on_a_bench(const DeviceList& devices, const DeviceEntry& entry, const Rule& rule) {
  try {
    const auto bench = TRY(RuleBench::open(devices, entry));
    return rule.check(*bench);
  } catch (
      ...) {  // the table is C: whatever comes through it is the plugin's mistake, caught where it enters
    return fail(ErrorCode::failed, "an exception left the plugin");
  }
}

}  // namespace

std::vector<RuleResult> check_rules(const DeviceList& devices, const DeviceEntry& entry,
                                    const RuleBegins& begins) {
  static constexpr std::array kFirst = {Rule{"allocate, copy, wait", sync_waits}};
  std::vector<RuleResult> results;
  for (const auto rules : {std::span<const Rule>(kFirst), memory_rules(), stream_rules(), kernel_rules()}) {
    if (!results.empty() && results[0].verdict != Verdict::ok) break;
    for (const Rule& rule : rules) {
      begins(rule.name);
      const auto checked = on_a_bench(devices, entry, rule);
      RuleResult result{.rule = std::string(rule.name)};
      if (!checked) {
        const bool offered = checked.error().code != ErrorCode::unsupported;
        result.verdict = offered ? Verdict::failed : Verdict::not_offered;
        if (offered) result.problem = checked.error().message;
      }
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace diji
