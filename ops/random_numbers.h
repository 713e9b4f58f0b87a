// Random numbers as a function of key, stream and position: what operators, importer and sessions share.
#pragma once

#include "graph/builder.h"

#include <cstdint>
#include <string_view>

namespace diji {

/// The input of a graph that draws random numbers: u64[], another one for each run. Sessions feed it.
inline constexpr std::string_view kRandomKey = "diji.random_key";

/// The key of run number `run` of a session with this seed.
HostTensor random_key(std::uint64_t seed, std::uint64_t run);

/// Another key for each number (i64[]): of the iterations of a loop.
ValueId fold_in(Builder& b, ValueId key, ValueId number);

/// Uniform in [0, 1), an own one for each element: multiples of 2^-24 for f32 and of 2^-53 for f64, exact.
/// They depend on key (u64[], none: 0), stream and the element's row-major position alone.
ValueId uniform_numbers(Builder& b, Shape shape, DType dtype, ValueId key, std::int64_t stream);
/// The same from the standard normal distribution, by the method of Box and Muller (1958).
ValueId normal_numbers(Builder& b, Shape shape, DType dtype, ValueId key, std::int64_t stream);

}  // namespace diji
