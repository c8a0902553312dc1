#include "trainer/optim/clip.h"

#include <algorithm>
#include <vector>

#include "trainer/model/scalars.h"

namespace autocfg {

void AddSquaredNorm(const Execution& run, const RankShape& shape, const MemoryLayout& layout) {
  if (shape.data != 0) return;
  std::vector<Tensor> counted;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    if (layout.parameters()[i].counted) counted.push_back(layout.parameter_tensors()[i].grad);
  }
  run.ops.SumOfSquares(counted, SquaredNormScalar(layout.workspace()), run.stream);
}

double ClipFactor(double clip_norm, double norm) {
  if (clip_norm == 0) return 1.0;
  return std::min(1.0, clip_norm / (norm + 1e-6));
}

}  // namespace autocfg
