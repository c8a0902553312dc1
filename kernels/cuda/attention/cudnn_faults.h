// Known cuDNN versions that compute attention wrongly although they offer plans for it. Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/cuda/attention/attention_shape.h"

namespace autocfg::cuda {

// Returns why this version, as reported by cudnnGetVersion, must not compute our attention
// (cudnn_attention_graph.h: causal, without padding), forward and backward, in one line. Empty if no fault is
// known.
std::string CudnnAttentionFault(std::size_t version, const AttentionShape& shape);

std::string CudnnVersionText(std::size_t version);  // "9.19.0"

}  // namespace autocfg::cuda
