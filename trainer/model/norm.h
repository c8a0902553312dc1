// The normalisation of a model's rows: layer norm (Ba et al. 2016) or, without mean and bias, RMS norm (Zhang
// & Sennrich 2019). Views only; one rank, one thread.
#pragma once

#include "trainer/model/memory_layout.h"
#include "trainer/parallel/execution.h"
#include "trainer/parallel/linear_parameters.h"

namespace autocfg {

class NormLayer {
 public:
  // `bias` is absent for an RMS norm. `shape` must outlive the result.
  NormLayer(const RankShape& shape, const Weight& weight, const Weight& bias);

  // y[T,H] = the norm of x[T,H]; leaves in `statistics` what the backward needs.
  void Forward(const Execution& run, const Tensor& x, const Tensor& y,
               const NormStatistics& statistics) const;

  // dx (= or, with add_to_dx, +=) gradient by x, given dy; parameter gradients accumulate.
  void Backward(const Execution& run, const Tensor& dy, const Tensor& x, const NormStatistics& statistics,
                const Tensor& dx, bool add_to_dx) const;

 private:
  const RankShape& shape_;
  Weight weight_, bias_;
};

}  // namespace autocfg
