// Views of the workspace's two double-precision scalars.
#pragma once

#include "trainer/layout/memory_layout.h"

namespace autocfg::trainer {

// Returns [1] kF64: the loss summed over the tokens of the rank's microbatches.
inline Tensor LossScalar(const Workspace& workspace) {
  Tensor t = workspace.scalars;
  t.shape[0] = 1;
  return t;
}

// Returns [1] kF64: the sum of squares of the gradients that the rank counts.
inline Tensor SquaredNormScalar(const Workspace& workspace) {
  Tensor t = LossScalar(workspace);
  if (t.data != nullptr) t.data = t.As<double>() + 1;
  return t;
}

}  // namespace autocfg::trainer
