#include "trainer/optim/adamw.h"

#include <cmath>

namespace autocfg {

AdamWParams StepParams(const AdamWOptions& options, double lr, double grad_scale, std::int64_t step) {
  AdamWParams p;
  p.lr = lr;
  p.beta1 = options.beta1;
  p.beta2 = options.beta2;
  p.eps = options.eps;
  p.weight_decay = options.weight_decay;
  p.bias_correction1 = 1.0 - std::pow(options.beta1, static_cast<double>(step + 1));
  p.bias_correction2 = 1.0 - std::pow(options.beta2, static_cast<double>(step + 1));
  p.grad_scale = grad_scale;
  return p;
}

void UpdateParameters(const Execution& run, const MemoryLayout& layout, const AdamWParams& params) {
  AdamWParams without_decay = params;
  without_decay.weight_decay = 0;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const ParameterTensors& t = layout.parameter_tensors()[i];
    run.ops.AdamW(t.value, t.grad, t.master, t.m, t.v,
                  layout.parameters()[i].decays() ? params : without_decay, run.stream);
  }
}

}  // namespace autocfg
