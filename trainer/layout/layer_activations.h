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

// The tensors of a block, attention or feed-forward, with norms on its input or its output.
struct BlockActivations {
  NormStatistics norm;
  Tensor ln;  // result of the norm on the input; with a shared norm, the tensors of attention
  NormStatistics out_norm;
  Tensor out;  // what the norm on the output reads
};

struct AttentionActivations : BlockActivations {
  Tensor qkv;
  Tensor raw_qk, rstd_qk;  // norms of q and k: what they read, and their statistics
  Tensor lse;              // fused attention
  Tensor probabilities;    // unfused attention
  Tensor attn;
};

struct FeedForwardActivations : BlockActivations {
  Tensor fc, act;
};

struct LayerActivations {
  Tensor x;
  AttentionActivations attention;
  Tensor mid;
  FeedForwardActivations feed_forward;
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
