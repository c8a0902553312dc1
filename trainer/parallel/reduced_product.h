// A matrix product whose sums over the tensor group are needed. With tp_overlap it is cut into chunks of
// tokens: while the sums of one chunk are reduced, the next one is computed (the software form of overlapping
// compute and collectives, as in Wang et al. 2023, "Overlap communication with dependent computation"). One
// rank, one thread.
#pragma once

#include <initializer_list>

#include "kernels/ops.h"
#include "kernels/tensor.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

struct Factors {
  Tensor x, w;
};

// Computes the sum of products x[T, k] W, of which `w` is W[k, H] or its transpose, sums it over the tensor
// group, and leaves the rank's own rows[R, H]. Uses `sums`[T, H]: SumsOf(run, rows, whole), or `whole` if
// `rows` is ReducedRows of it. On a device whose collectives run beside its computes, all but the last
// chunk's may be hidden.
void ReducedProduct(const Execution& run, std::initializer_list<Factors> products, Transpose transpose_w,
                    const Tensor& sums, const Tensor& rows);

}  // namespace autocfg::trainer
