// Initial weights, which depend only on the model and the seed. Element g of the parameter NAME is drawn from
// a counter-based generator (Philox4x32-10, Salmon et al. 2011) keyed by the seed and NAME, at counter g / 4.
// All layouts therefore start from the same weights. Pure functions, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/device.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/layout/parameters.h"

namespace autocfg::trainer {

// Returns one block of four random words.
std::array<std::uint32_t, 4> Philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

// Returns the generator's key for a stream of numbers: the seed mixed with the 64-bit FNV-1a hash of the
// name.
std::array<std::uint32_t, 2> PhiloxKey(std::uint64_t seed, std::string_view name);

// Computes standard normal numbers `first`, `first` + 1, ... of the stream of `key`, by Box and Muller
// (1958).
void NormalNumbers(std::array<std::uint32_t, 2> key, std::int64_t first, std::span<double> out);

// Sets the rank's part of a parameter, and its master copy if it has one, each to the double value rounded to
// its type. The tensors must be zeroed before; padding stays zero. Uses all cores that the process may run
// on. Does nothing if the device has no memory behind the tensors.
void InitializeParameter(const Parameter& parameter, std::uint64_t seed, const ParameterTensors& tensors,
                         Device& device, Stream& stream);

}  // namespace autocfg::trainer
