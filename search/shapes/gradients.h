// Which gradients a backward computes. Where a schedule splits backwards, one action computes those of
// inputs, with those of norms, and a later one those of weights and biases. Plain values.
#pragma once

#include <cstdint>

namespace autocfg {

enum class Gradients : std::uint8_t { kAll, kInputs, kWeights };

constexpr bool OfInputs(Gradients gradients) { return gradients != Gradients::kWeights; }
constexpr bool OfWeights(Gradients gradients) { return gradients != Gradients::kInputs; }

}  // namespace autocfg
