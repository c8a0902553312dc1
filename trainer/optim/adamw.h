// One AdamW update of all parameters of a rank (Loshchilov & Hutter 2019). One rank, one thread.
#pragma once

#include <cstdint>

#include "kernels/ops.h"
#include "trainer/model/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // of parameters of two or more dims only
};

// `step` counts from 0. Without clipping.
AdamWParams StepParams(const AdamWOptions& options, double lr, std::int64_t step);

// Updates all parameters of the layout, their master copies where the precision has them, and moments.
// `weight_decay` is for parameters that decay.
void UpdateParameters(const Execution& run, const MemoryLayout& layout, const AdamWParams& params,
                      double weight_decay);

}  // namespace autocfg
