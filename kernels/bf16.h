// bfloat16 on the host: the upper half of a float. Thread-safe.
#pragma once

#include <bit>
#include <cstdint>

namespace autocfg {

using Bf16Bits = std::uint16_t;

inline float FromBf16(Bf16Bits bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// Rounds to nearest, ties to even, as the devices do. A NaN becomes a quiet NaN with the same sign and the
// upper bits of its payload.
inline Bf16Bits ToBf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<Bf16Bits>(bits >> 16 | 0x40);
  return static_cast<Bf16Bits>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace autocfg
