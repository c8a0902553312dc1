// The functions between the two linear layers of a feed-forward block; see Ops. T: float, double. Pure
// functions.
#pragma once

#include <cstdint>

#include "search/ops/activation.h"

namespace autocfg::cpu {

// x[rows, width], twice as wide where gated -> y[rows, width]; `bias` as wide as x, or null.
template <typename T>
void ActivationForward(Activation activation, std::int64_t rows, std::int64_t width, T* x, const T* bias,
                       T* y);

// dx as wide as x.
template <typename T>
void ActivationBackward(Activation activation, std::int64_t rows, std::int64_t width, const T* x, const T* dy,
                        T* dx);

}  // namespace autocfg::cpu
