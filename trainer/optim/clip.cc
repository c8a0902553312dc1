#include "trainer/optim/clip.h"

#include <vector>

#include "trainer/layout/scalars.h"

namespace autocfg::trainer {

void AddSquaredNorm(const Execution& run, const RankShape& shape, const MemoryLayout& layout) {
  if (shape.data != 0) return;
  std::vector<Tensor> counted;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    if (layout.parameters()[i].counted) counted.push_back(layout.parameter_tensors()[i].grad);
  }
  run.ops.SumOfSquares(counted, SquaredNormScalar(layout.workspace()), run.stream);
}

void SetClipping(double clip_norm, const MemoryLayout& layout, AdamWParams& params) {
  params.clip_norm = clip_norm;
  params.squared_norm = clip_norm == 0 ? Tensor{} : SquaredNormScalar(layout.workspace());
}

}  // namespace autocfg::trainer
