// malloc and its kin in front of glibc's; under a sanitizer, which has its own, operator new and its kin.
#include "tests/unit/memory/host_memory.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>  // brings libstdc++'s own way to say bad_alloc

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DIJI_SANITIZED 1
#endif
#endif

namespace diji::test {
namespace {

std::atomic<std::int64_t> until_shortage = -1;  // negative: none is planned
std::atomic<bool> lasts = false, tripped = false;
std::atomic<std::int64_t> live_count = 0;
thread_local int exempt = 0;

bool runs_out() {
  if (exempt > 0) return false;
  std::int64_t left = until_shortage.load(std::memory_order_relaxed);
  do {
    if (left < 0) return false;
  } while (!until_shortage.compare_exchange_weak(left, left == 0 && lasts ? 0 : left - 1));
  if (left > 0) return false;
  tripped = true;
  errno = ENOMEM;
  return true;
}

/// What `allocate` gives, counted; null where memory has run out.
template <typename Allocate>
void* counted(Allocate&& allocate) {
  void* memory = runs_out() ? nullptr : allocate();
  if (memory != nullptr) live_count.fetch_add(1, std::memory_order_relaxed);
  return memory;
}
void uncounted(const void* memory) {
  if (memory != nullptr) live_count.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

void HostMemory::arm(std::int64_t k, Shortage shortage) {
  lasts = shortage == Shortage::all_from_there;
  tripped = false;
  until_shortage = k;
}
bool HostMemory::disarm() {
  until_shortage = -1;
  return tripped;
}
std::int64_t HostMemory::live() { return live_count; }
bool HostMemory::sanitized() {
#if defined(DIJI_SANITIZED)
  return true;
#else
  return false;
#endif
}

WithoutShortage::WithoutShortage() { ++exempt; }
WithoutShortage::~WithoutShortage() { --exempt; }

}  // namespace diji::test

using diji::test::counted;
using diji::test::uncounted;

#if defined(DIJI_SANITIZED)

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  return counted([&] {
    return std::aligned_alloc(alignment, (bytes + alignment - 1 + (bytes == 0)) / alignment * alignment);
  });
}
void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* memory = allocate(bytes, alignment);
  if (memory == nullptr) std::__throw_bad_alloc();
  return memory;
}
void release(void* memory) {
  uncounted(memory);
  std::free(memory);
}
constexpr std::size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

void* operator new(std::size_t n) { return allocate_or_throw(n, kUsual); }
void* operator new[](std::size_t n) { return allocate_or_throw(n, kUsual); }
void* operator new(std::size_t n, std::align_val_t a) { return allocate_or_throw(n, std::size_t(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return allocate_or_throw(n, std::size_t(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return allocate(n, kUsual); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return allocate(n, kUsual); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(n, std::size_t(a));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { release(p); }

#else

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* memory);

void* malloc(std::size_t bytes) {
  return counted([&] { return __libc_malloc(bytes); });
}
void* calloc(std::size_t count, std::size_t bytes) {
  return counted([&] { return __libc_calloc(count, bytes); });
}
void* realloc(void* memory, std::size_t bytes) {
  if (memory == nullptr) return malloc(bytes);
  if (bytes == 0) uncounted(memory);
  return diji::test::runs_out() ? nullptr : __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return counted([&] { return __libc_memalign(alignment, bytes); });
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  void* made = memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *memory = made;
  return 0;
}
void free(void* memory) {
  uncounted(memory);
  __libc_free(memory);
}
}

#endif
