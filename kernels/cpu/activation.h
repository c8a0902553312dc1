// The activations between the two linear layers of a feed-forward block; see Ops. T: float, double. Pure
// functions.
#pragma once

#include <cstdint>

#include "search/ops/activation.h"

namespace autocfg::cpu {

// Computes y[rows, width] from x[rows, width]; x is twice as wide if the activation is gated. `bias` has the
// width of x, or is null.
template <typename T>
void ActivationForward(Activation activation, std::int64_t rows, std::int64_t width, T* x, const T* bias,
                       T* y);

// dx has the width of x.
template <typename T>
void ActivationBackward(Activation activation, std::int64_t rows, std::int64_t width, const T* x, const T* dy,
                        T* dx);

}  // namespace autocfg::cpu
