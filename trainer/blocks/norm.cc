#include "trainer/blocks/norm.h"

namespace autocfg::trainer {

NormLayer::NormLayer(const RankShape& shape, const MemoryLayout& layout, ParameterKind weight,
                     ParameterKind bias, std::int64_t layer)
    : shape_(shape), weight_(layout.Find(weight, layer)), bias_(layout.Find(bias, layer)) {}

void NormLayer::Forward(const Execution& run, const Tensor& x, const Tensor& y,
                        const NormStatistics& statistics) const {
  const double eps = shape_.model.norm_eps;
  switch (shape_.model.norm) {
    case Norm::kLayerNorm:
      return run.ops.LayerNormForward(x, weight_.value, bias_.value, eps, y, statistics.mean, statistics.rstd,
                                      run.stream);
    case Norm::kRmsNorm: return run.ops.RmsNormForward(x, weight_.value, eps, y, statistics.rstd, run.stream);
  }
}

void NormLayer::Backward(const Execution& run, const Tensor& dy, const Tensor& x,
                         const NormStatistics& statistics, const Tensor& dx, bool add_to_dx,
                         bool accumulate) const {
  switch (shape_.model.norm) {
    case Norm::kLayerNorm:
      return run.ops.LayerNormBackward(dy, x, weight_.value, statistics.mean, statistics.rstd, dx, add_to_dx,
                                       weight_.grad, bias_.grad, accumulate, run.stream);
    case Norm::kRmsNorm:
      return run.ops.RmsNormBackward(dy, x, weight_.value, statistics.rstd, dx, add_to_dx, weight_.grad,
                                     accumulate, run.stream);
  }
}

}  // namespace autocfg::trainer
