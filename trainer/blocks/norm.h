// Normalization of a model's rows: layer norm (Ba et al. 2016) or RMS norm (Zhang & Sennrich 2019), which has
// no mean and no bias. Holds views only; one rank, one thread.
#pragma once

#include "trainer/layout/memory_layout.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

class NormLayer {
 public:
  // The parameters are absent in a model without the norm. An RMS norm has no bias. `shape` must outlive the
  // result.
  NormLayer(const RankShape& shape, const MemoryLayout& layout, ParameterKind weight, ParameterKind bias,
            std::int64_t layer = kNoLayer);

  // Computes y[R,H], the norm of x[R,H]. Stores in `statistics` what Backward needs.
  void Forward(const Execution& run, const Tensor& x, const Tensor& y,
               const NormStatistics& statistics) const;

  // Computes dx, the gradient with respect to x, from dy; adds to dx if add_to_dx is set. Computes the
  // parameter gradients too; adds to them if `accumulate`.
  void Backward(const Execution& run, const Tensor& dy, const Tensor& x, const NormStatistics& statistics,
                const Tensor& dx, bool add_to_dx, bool accumulate) const;

 private:
  const RankShape& shape_;
  Weight weight_, bias_;
};

}  // namespace autocfg::trainer
