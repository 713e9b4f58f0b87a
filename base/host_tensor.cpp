// Allocation, sharing and element access of HostTensor.
#include "base/host_tensor.h"

#include "base/checked.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace diji {
namespace {

// Cache lines and the widest vector registers of the CPUs we know are 64 bytes.
constexpr std::size_t kAlignment = 64;

// From here on a tensor has pages of its own: they come as zeros without being written, and go back to the
// system at once, where a heap keeps what weights that were worked on leave behind.
constexpr std::size_t kOwnPagesMin = 1 << 20;

// Zeros; null where there is no memory.
std::shared_ptr<void> allocate_zeros(std::size_t bytes) {
  if (bytes >= kOwnPagesMin) {
    void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    return std::shared_ptr<void>(pages, [bytes](void* memory) { ::munmap(memory, bytes); });
  }
  std::shared_ptr<void> memory(std::aligned_alloc(kAlignment, bytes), std::free);
  if (memory != nullptr) std::memset(memory.get(), 0, bytes);
  return memory;
}

}  // namespace

std::string text_of(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<HostTensor> HostTensor::allocate(DType dtype, StaticShape shape) {
  const auto count = checked_product(shape);
  const auto bytes = count ? checked_mul<std::int64_t>(*count, bytes_of(dtype)) : std::nullopt;
  if (!bytes) {
    return fail(ErrorCode::malformed, "a tensor of shape {} and dtype {} has no valid size", text_of(shape),
                name_of(dtype));
  }
  const std::size_t rounded = (static_cast<std::size_t>(*bytes) + kAlignment) / kAlignment * kAlignment;
  std::shared_ptr<void> memory = allocate_zeros(rounded);
  if (memory == nullptr) {
    auto error =
        fail(ErrorCode::out_of_memory, "no host memory for a tensor of shape {} and dtype {} ({} bytes)",
             text_of(shape), name_of(dtype), *bytes);
    error.error().bytes = *bytes;
    return error;
  }
  HostTensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.count_ = *count;
  tensor.bytes_ = {static_cast<const std::byte*>(memory.get()), static_cast<std::size_t>(*bytes)};
  tensor.owner_ = std::move(memory);
  tensor.writable_ = true;
  return tensor;
}

HostTensor HostTensor::view(DType dtype, StaticShape shape, std::span<const std::byte> bytes,
                            std::shared_ptr<const void> owner) {
  const auto count = checked_product(shape);
  CHECK(count && checked_mul<std::int64_t>(*count, bytes_of(dtype)) == std::ssize(bytes),
        "a view's bytes fit its shape");
  HostTensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.count_ = *count;
  tensor.bytes_ = bytes;
  tensor.owner_ = std::move(owner);
  return tensor;
}

Result<HostTensor> HostTensor::view_or_copy(DType dtype, StaticShape shape, std::span<const std::byte> bytes,
                                            std::shared_ptr<const void> owner) {
  const auto alignment = static_cast<std::uintptr_t>(bytes_of(dtype));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0)
    return view(dtype, std::move(shape), bytes, std::move(owner));
  HostTensor copy = TRY(allocate(dtype, std::move(shape)));
  CHECK(copy.bytes().size() == bytes.size(), "a view's bytes fit its shape");
  std::ranges::copy(bytes, copy.mutable_bytes().begin());
  return copy;
}

std::span<std::byte> HostTensor::mutable_bytes() {
  CHECK(writable_, "only a tensor that allocated its bytes is written to");
  return {const_cast<std::byte*>(bytes_.data()), bytes_.size()};
}

double HostTensor::as_double(std::int64_t i) const {
  return visit_dtype(dtype_, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return static_cast<double>(values<T>()[static_cast<std::size_t>(i)]);
  });
}

std::vector<std::int64_t> HostTensor::as_int64() const {
  CHECK(!is_floating(dtype_), "integers of an integer tensor");
  std::vector<std::int64_t> result(static_cast<std::size_t>(count_));
  visit_dtype(dtype_, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      std::transform(values<T>().begin(), values<T>().end(), result.begin(),
                     [](T value) { return static_cast<std::int64_t>(value); });
    }
  });
  return result;
}

HostTensor HostTensor::reshaped(StaticShape shape) const {
  CHECK(checked_product(shape) == count_, "a reshape keeps the number of elements");
  HostTensor tensor = *this;
  tensor.shape_ = std::move(shape);
  return tensor;
}

bool HostTensor::same_bits(const HostTensor& other) const {
  return dtype_ == other.dtype_ && shape_ == other.shape_ &&
         std::equal(bytes_.begin(), bytes_.end(), other.bytes_.begin(), other.bytes_.end());
}

}  // namespace diji
