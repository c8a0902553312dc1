#include "trainer/model/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "trainer/model/element_copy.h"

namespace autocfg {
namespace {

constexpr std::int64_t kChunk = 1 << 16;  // elements made and copied at once

}  // namespace

std::array<std::uint32_t, 4> Philox4x32(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

std::array<std::uint32_t, 2> PhiloxKey(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char ch : name) {
    hash ^= static_cast<unsigned char>(ch);
    hash *= 0x100000001b3u;
  }
  // The finalizer of SplitMix64 spreads small seeds over the whole key.
  std::uint64_t z = seed + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  const std::uint64_t key = hash ^ z ^ (z >> 31);
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

void NormalNumbers(std::array<std::uint32_t, 2> key, std::int64_t first, std::span<double> out) {
  const std::int64_t end = first + static_cast<std::int64_t>(out.size());
  for (std::int64_t block = first / 4; block * 4 < end; ++block) {
    const auto words =
        Philox4x32({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
    double normal[4];
    for (int pair = 0; pair < 2; ++pair) {
      const double u = (words[2 * pair] + 0.5) * 0x1p-32;  // in (0, 1)
      const double v = (words[2 * pair + 1] + 0.5) * 0x1p-32;
      const double radius = std::sqrt(-2.0 * std::log(u));
      normal[2 * pair] = radius * std::cos(2.0 * std::numbers::pi * v);
      normal[2 * pair + 1] = radius * std::sin(2.0 * std::numbers::pi * v);
    }
    for (int lane = 0; lane < 4; ++lane) {
      const std::int64_t index = block * 4 + lane;
      if (index >= first && index < end) out[index - first] = normal[lane];
    }
  }
}

void InitializeParameter(const Parameter& parameter, std::uint64_t seed, const Tensor& tensor, Device& device,
                         Stream& stream) {
  if (tensor.data == nullptr || parameter.initial == Initial::kZeros) return;
  const auto key = PhiloxKey(seed, parameter.name);
  std::vector<double> values;
  ForEachRun(parameter, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
    for (std::int64_t done = 0; done < count; done += kChunk) {
      values.resize(std::min(kChunk, count - done));
      if (parameter.initial == Initial::kOnes) {
        std::fill(values.begin(), values.end(), 1.0);
      } else {
        NormalNumbers(key, global + done, values);
        for (double& v : values) v *= parameter.std;
      }
      CopyFromDoubles(values, tensor, local + done, device, stream);
    }
  });
}

}  // namespace autocfg
