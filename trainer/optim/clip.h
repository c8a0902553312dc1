// Clipping by the global L2 norm over all axes: every parameter of the model counts once. One rank, one
// thread.
#pragma once

#include "trainer/model/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg {

// Adds the squares of the gradients that this rank counts to the layout's squared-norm scalar: nothing but on
// data coordinate 0.
void AddSquaredNorm(const Execution& run, const RankShape& shape, const MemoryLayout& layout);

// min(1, clip_norm / (norm + 1e-6)); 1 where clip_norm is 0.
double ClipFactor(double clip_norm, double norm);

}  // namespace autocfg
