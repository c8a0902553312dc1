#include "trainer/optim/adamw.h"

#include <cmath>
#include <vector>

namespace autocfg::trainer {

AdamWParams StepParams(const AdamWOptions& options, double lr, std::int64_t step) {
  AdamWParams p;
  p.lr = lr;
  p.beta1 = options.beta1;
  p.beta2 = options.beta2;
  p.eps = options.eps;
  p.bias_correction1 = 1.0 - std::pow(options.beta1, static_cast<double>(step + 1));
  p.bias_correction2 = 1.0 - std::pow(options.beta2, static_cast<double>(step + 1));
  return p;
}

void UpdateParameters(const Execution& run, const MemoryLayout& layout, const AdamWParams& params,
                      double weight_decay) {
  std::vector<AdamWTensor> tensors;
  tensors.reserve(layout.parameters().size());
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const ParameterTensors& t = layout.parameter_tensors()[i];
    tensors.push_back(
        {t.value, t.grad, t.master, t.m, t.v, layout.parameters()[i].decays() ? weight_decay : 0});
  }
  run.ops.AdamW(tensors, params, run.stream);
}

}  // namespace autocfg::trainer
