// Rotary position embedding (Su et al. 2021); see Ops. T is float or __nv_bfloat16, rotated in float. Issued
// on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace autocfg::cuda {

struct RopeShape {
  std::int64_t batch, seq_len, width;  // rows of `width` elements
  std::int64_t heads, head_dim;        // the first heads * head_dim columns are rotated
};

// Angles are reduced to one turn in double precision; their sines are computed in float (error below 1e-6 for
// positions below 2^24). One block per token; its sines are computed once for all heads. Memory traffic: 2
// batch seq_len heads head_dim sizeof(T) bytes.
template <typename T>
void Rope(const RopeShape& shape, double theta, bool inverse, T* qkv, cudaStream_t stream);

}  // namespace autocfg::cuda
