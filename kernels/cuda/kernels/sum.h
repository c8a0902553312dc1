// Deterministic sums over many blocks, in two phases: each block writes a partial sum, then the partial sums
// are added. The order of the additions depends only on the shape and the GPU's model, so the same GPU gives
// the same bits. Issued on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/scratch.h"

namespace autocfg::cuda {

// sums[width] (=, or += if `add`) column sums of x[rows, width], in float and rounded to S. T and S are float
// or __nv_bfloat16, S float if T is. Memory traffic: rows width sizeof(T) bytes and, for many rows, at most a
// tenth of that in partial sums. Computes bias gradients, and position gradients with the batch as rows.
template <typename T, typename S>
void ColumnSum(std::int64_t rows, std::int64_t width, const T* x, S* sums, bool add, Scratch& scratch,
               cudaStream_t stream);

// Where the second phase of column sums adds up the parts: one or two sets of sums, each [width].
template <typename S>
struct PartialSums {
  S* first;
  S* second = nullptr;
};

// The second phase of column sums, in float and rounded to S: each set of sums (=, or += if `add`) the sum
// over the parts of its partials[parts, width]. The partials of the second set follow those of the first.
template <typename S>
void AddPartials(std::int64_t parts, std::int64_t width, const float* partials, const PartialSums<S>& to,
                 bool add, cudaStream_t stream);

// The second phase of a single sum, in double: result[1] += sum of partials[n], in an order that depends only
// on n.
void AddSum(std::int64_t n, const double* partials, double* result, cudaStream_t stream);

}  // namespace autocfg::cuda
