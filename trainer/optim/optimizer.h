// The optimizer of a rank: the learning rate of a step, gradient clipping by the global L2 norm, and the
// update, AdamW or SGD (Ops). One rank, one thread.
#pragma once

#include <cstdint>

#include "kernels/ops.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

enum class LrDecay : std::uint8_t { kConstant, kCosine };

// Linear warm-up to `lr`, then constant or a cosine down to `min_lr`.
struct LrSchedule {
  double lr = 3e-4;
  double min_lr = 0;
  LrDecay decay = LrDecay::kConstant;
  std::int64_t warmup_steps = 0;
  std::int64_t steps = 1;  // of the whole run
};

// Returns the learning rate of a step, which counts from 0. Warm-up: lr (step + 1) / warmup_steps. Cosine:
// from lr at step `warmup_steps` to min_lr at the last step.
double LearningRate(const LrSchedule& schedule, std::int64_t step);

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // of SGD too; only for parameters of two or more dims
};

// Returns the parameters of a step, without clipping. `step` counts from 0.
UpdateParams StepParams(const AdamWOptions& options, const Optimizer& optimizer, double lr,
                        std::int64_t step);

// Adds the squares of the gradients that this rank counts to the layout's squared-norm scalar, so that every
// parameter of the model counts once over all ranks. Adds nothing on replicas of its states but the first.
void AddSquaredNorm(const Execution& run, const RankShape& shape, const MemoryLayout& layout);

// Makes the update clip by the norm whose square the layout's scalar holds when the update runs. Disables
// clipping if clip_norm is 0.
void SetClipping(double clip_norm, const MemoryLayout& layout, UpdateParams& params);

// Updates the parameters whose states this rank has, their moments, and their master copies if the precision
// has them. `weight_decay` applies to parameters that decay.
void UpdateParameters(const Execution& run, const MemoryLayout& layout, OptimizerKind kind,
                      const UpdateParams& params, double weight_decay);

}  // namespace autocfg::trainer
