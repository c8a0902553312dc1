// Versions of cuDNN that compute attention wrongly, though they make plans for it. Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/cuda/attention_shape.h"

namespace autocfg::cuda {

// Why this version, as cudnnGetVersion tells it, must not compute our attention (cudnn_attention_graph.h:
// causal, without padding), forward and backward, in one line; empty where nothing is known against it.
std::string CudnnAttentionFault(std::size_t version, const AttentionShape& shape);

std::string CudnnVersionText(std::size_t version);  // "9.19.0"

}  // namespace autocfg::cuda
