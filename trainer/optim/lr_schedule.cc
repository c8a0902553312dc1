#include "trainer/optim/lr_schedule.h"

#include <cmath>
#include <numbers>

namespace autocfg::trainer {

double LearningRate(const LrSchedule& s, std::int64_t step) {
  if (step < s.warmup_steps)
    return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  if (s.decay == LrDecay::kConstant) return s.lr;
  const std::int64_t span = s.steps - 1 - s.warmup_steps;
  if (span <= 0 || step >= s.steps - 1) return s.min_lr;
  const double progress = static_cast<double>(step - s.warmup_steps) / static_cast<double>(span);
  return s.min_lr + 0.5 * (s.lr - s.min_lr) * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace autocfg::trainer
