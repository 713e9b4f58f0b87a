// The process's own memory, counted, and made to run out at a chosen allocation.
#pragma once

#include <cstdint>

namespace diji::test {

enum class Shortage { one_allocation, all_from_there };

/// All threads; what C and C++ code allocates (under a sanitizer: what C++ code does with new).
class HostMemory {
 public:
  /// The k-th allocation from here on fails, k from 0.
  static void arm(std::int64_t k, Shortage shortage);
  /// Whether one has failed since arm().
  static bool disarm();
  /// Allocations that were not given back.
  static std::int64_t live();
  /// A sanitizer keeps freed memory for a while: what the process holds then tells nothing of leaks.
  static bool sanitized();
};

/// What this thread allocates meanwhile does not fail: code of others that cannot go on without memory.
class WithoutShortage {
 public:
  WithoutShortage();
  ~WithoutShortage();
  WithoutShortage(const WithoutShortage&) = delete;
  WithoutShortage& operator=(const WithoutShortage&) = delete;
};

}  // namespace diji::test
