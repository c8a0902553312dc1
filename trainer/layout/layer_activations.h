// What a layer keeps of a microbatch between its forward and its backward (docs/engine.md, "Activations").
// Plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.h"
#include "trainer/layout/rank_shape.h"

namespace autocfg::trainer {

// Statistics that a norm stores for R tokens; an RMS norm has no mean.
struct NormStatistics {
  Tensor mean, rstd;
};

struct LayerActivations {
  Tensor x;
  NormStatistics norm1;
  Tensor ln1, qkv;
  Tensor raw_qk, rstd_qk;  // norms of q and k: what they read, and their statistics
  Tensor lse;              // fused attention
  Tensor probabilities;    // unfused attention
  Tensor attn, mid;
  NormStatistics norm2;
  Tensor ln2, fc, act;  // with a shared norm, ln2 is ln1
  // Norms on outputs: what they read, the outputs of attention and of feed-forward.
  Tensor out1, out2;
  NormStatistics out_norm1, out_norm2;
};

// One of these tensors.
struct LayerTensor {
  Tensor* tensor;
  DType type;
  std::vector<std::int64_t> shape;
  bool recomputed;  // in every layer, as part of what recompute=selective names
};

// Returns the tensors of `activations` that a layer of the rank has, all but x.
std::vector<LayerTensor> LayerTensors(const RankShape& shape, LayerActivations& activations);

}  // namespace autocfg::trainer
