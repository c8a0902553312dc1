#include "trainer/optim/optimizer.h"

#include <cmath>
#include <numbers>
#include <vector>

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

UpdateParams StepParams(const AdamWOptions& options, const Optimizer& optimizer, double lr,
                        std::int64_t step) {
  UpdateParams p;
  p.lr = lr;
  p.momentum = optimizer.momentum;
  p.beta1 = options.beta1;
  p.beta2 = options.beta2;
  p.eps = options.eps;
  p.bias_correction1 = 1.0 - std::pow(options.beta1, static_cast<double>(step + 1));
  p.bias_correction2 = 1.0 - std::pow(options.beta2, static_cast<double>(step + 1));
  return p;
}

void AddSquaredNorm(const Execution& run, const RankShape& shape, const MemoryLayout& layout) {
  if (shape.replica != 0) return;
  std::vector<Tensor> counted;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const ParameterTensors& t = layout.parameter_tensors()[i];
    if (layout.parameters()[i].counted && t.own.count > 0) counted.push_back(t.own_grad);
  }
  if (counted.empty()) return;
  run.ops.SumOfSquares(counted, SquaredNormScalar(layout.workspace()), run.stream);
}

void SetClipping(double clip_norm, const MemoryLayout& layout, UpdateParams& params) {
  params.clip_norm = clip_norm;
  params.squared_norm = clip_norm == 0 ? Tensor{} : SquaredNormScalar(layout.workspace());
}

void UpdateParameters(const Execution& run, const MemoryLayout& layout, OptimizerKind kind,
                      const UpdateParams& params, double weight_decay) {
  std::vector<UpdatedTensor> tensors;
  tensors.reserve(layout.parameters().size());
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const ParameterTensors& t = layout.parameter_tensors()[i];
    if (t.own.count == 0) continue;
    tensors.push_back(
        {t.own_value, t.own_grad, t.master, t.m, t.v, layout.parameters()[i].decays() ? weight_decay : 0});
  }
  if (kind == OptimizerKind::kSgd) return run.ops.Sgd(tensors, params, run.stream);
  run.ops.AdamW(tensors, params, run.stream);
}

}  // namespace autocfg::trainer
