// The learning rate of a step: linear warm-up to `lr`, then constant or a cosine down to `min_lr`. Pure
// functions, thread-safe.
#pragma once

#include <cstdint>

namespace autocfg::trainer {

enum class LrDecay : std::uint8_t { kConstant, kCosine };

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

}  // namespace autocfg::trainer
