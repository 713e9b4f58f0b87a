// libFuzzer target: any bytes as an object file of any processor are refused, or linked inside their image.
#include "plugins/cpu/object_linker.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kPage = 4096, kLargest = 4u << 20;
constexpr std::uint64_t kBase = 0x7f5555550000, kHostFunction = 0x7fff12345678;

diji::Result<void> link(std::span<const std::byte> bytes, const diji::cpu::Machine& machine) {
  const auto object = TRY(diji::cpu::parse_elf(bytes, machine));
  diji::cpu::ObjectLinker linker(object, machine);
  const auto layout = TRY(linker.lay_out(kPage, [](std::string_view) { return kHostFunction; }));
  if (layout.bytes > kLargest) return {};  // only slow
  const std::unique_ptr<void, decltype(&std::free)> image(std::calloc(layout.bytes, 1), &std::free);
  return linker.link({static_cast<std::byte*>(image.get()), layout.bytes}, kBase);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const auto* machine :
       {&diji::cpu::x86_64_machine(), &diji::cpu::aarch64_machine(), &diji::cpu::riscv64_machine()}) {
    const auto linked = link(bytes, *machine);
    if (!linked && linked.error().message.empty()) std::abort();
  }
  return 0;
}
