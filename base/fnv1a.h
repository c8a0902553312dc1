// FNV-1a, 64 bits (Fowler, Noll and Vo), for fingerprints, keys and names. Their values are stored, so they
// must be the same on every machine and in every version. Not collision-resistant against an attacker.
#pragma once

#include <cstdint>
#include <string_view>

namespace autocfg::base {

inline constexpr std::uint64_t kFnv1aOfNothing = 0xcbf29ce484222325u;

// Returns the hash of `bytes`. `before` is the hash of the preceding bytes.
constexpr std::uint64_t Fnv1a(std::string_view bytes, std::uint64_t before = kFnv1aOfNothing) {
  std::uint64_t hash = before;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace autocfg::base
