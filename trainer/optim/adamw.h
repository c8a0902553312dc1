// AdamW updates of all parameters of a rank (Loshchilov & Hutter 2019). One rank, one thread.
#pragma once

#include <cstdint>

#include "kernels/ops.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // only for parameters of two or more dims
};

// Returns the parameters of a step, without clipping. `step` counts from 0.
AdamWParams StepParams(const AdamWOptions& options, double lr, std::int64_t step);

// Updates all parameters of the layout, their moments, and their master copies if the precision has them.
// `weight_decay` applies to parameters that decay.
void UpdateParameters(const Execution& run, const MemoryLayout& layout, const AdamWParams& params,
                      double weight_decay);

}  // namespace autocfg::trainer
