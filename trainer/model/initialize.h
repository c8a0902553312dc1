// The initial weights, which depend on the model and the seed alone: element g of the parameter NAME is drawn
// from a counter-based generator (Philox4x32-10, Salmon et al. 2011) keyed by the seed and NAME, at counter g
// / 4. Any layout therefore starts from the same weights. Pure functions, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/device.h"
#include "trainer/model/memory_layout.h"
#include "trainer/model/parameters.h"

namespace autocfg {

// One block of four random words.
std::array<std::uint32_t, 4> Philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

// The generator's key for a stream of numbers: the seed mixed with the 64-bit FNV-1a of the name.
std::array<std::uint32_t, 2> PhiloxKey(std::uint64_t seed, std::string_view name);

// Standard normal numbers `first`, `first` + 1, ... of the stream of `key`, by Box and Muller (1958).
void NormalNumbers(std::array<std::uint32_t, 2> key, std::int64_t first, std::span<double> out);

// Sets the rank's part of a parameter, and its master copy where there is one: each the double value, rounded
// to its type. The tensors are zeroed before: padding stays zero. Draws on all cores that the process may run
// on. Does nothing where the device has no memory behind them.
void InitializeParameter(const Parameter& parameter, std::uint64_t seed, const ParameterTensors& tensors,
                         Device& device, Stream& stream);

}  // namespace autocfg
