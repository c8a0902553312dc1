// Sums of columns in two phases: blocks sum the rows that fall to them, then the blocks' partial sums are
// added. The order of the additions depends on the shape and on the GPU's model alone, so that the same GPU
// gives the same bits. Issued on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/scratch.h"

namespace autocfg::cuda {

// sums[width] += column sums of x[rows, width], in float. T is float or __nv_bfloat16. Moves rows width
// sizeof(T) bytes and, where rows are many, at most a tenth of that in partial sums. Bias gradients are this,
// and position gradients, with the batch as rows.
template <typename T>
void ColumnSum(std::int64_t rows, std::int64_t width, const T* x, float* sums, Scratch& scratch,
               cudaStream_t stream);

// The second phase: sums[width] += sum over the parts of partials[parts, width].
void AddPartials(std::int64_t parts, std::int64_t width, const float* partials, float* sums,
                 cudaStream_t stream);

}  // namespace autocfg::cuda
