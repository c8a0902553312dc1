// FNV-1a, 64 bits (Fowler, Noll and Vo): fingerprints, keys and names that must be the same on every machine
// and in every version, since they are stored. No protection against anybody who wants two texts to collide.
#pragma once

#include <cstdint>
#include <string_view>

namespace autocfg {

inline constexpr std::uint64_t kFnv1aOfNothing = 0xcbf29ce484222325u;

// Of the bytes; `before`: the hash of what comes before them.
constexpr std::uint64_t Fnv1a(std::string_view bytes, std::uint64_t before = kFnv1aOfNothing) {
  std::uint64_t hash = before;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace autocfg
