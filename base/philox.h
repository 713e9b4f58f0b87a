// Random numbers by counting: Philox4x32-10.
#pragma once

#include <array>
#include <cstdint>

namespace diji {

/// 128 random bits for a counter and a key. Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
/// 1, 2, 3 (SC 2011); known answers are those of Random123.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key);

/// The constants of a round, for whoever writes it in other words.
struct Philox {
  static constexpr int kRounds = 10;
  static constexpr std::array<std::uint64_t, 2> kMultipliers = {0xD2511F53U, 0xCD9E8D57U};
  static constexpr std::array<std::uint32_t, 2> kKeySteps = {0x9E3779B9U, 0xBB67AE85U};
};

constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < Philox::kRounds; ++round) {
    const std::uint64_t a = Philox::kMultipliers[0] * counter[0], b = Philox::kMultipliers[1] * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += Philox::kKeySteps[0];
    key[1] += Philox::kKeySteps[1];
  }
  return counter;
}

}  // namespace diji
