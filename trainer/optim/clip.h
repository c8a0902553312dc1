// Gradient clipping by the global L2 norm over all axes: every parameter of the model counts once. One rank,
// one thread.
#pragma once

#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

// Adds the squares of the gradients that this rank counts to the layout's squared-norm scalar. Adds nothing
// unless the data coordinate is 0.
void AddSquaredNorm(const Execution& run, const RankShape& shape, const MemoryLayout& layout);

// Makes the update clip by the norm whose square the layout's scalar holds when the update runs. Disables
// clipping if clip_norm is 0.
void SetClipping(double clip_norm, const MemoryLayout& layout, AdamWParams& params);

}  // namespace autocfg::trainer
