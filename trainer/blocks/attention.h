// The attention block of a layer: norm, projection to q, k and v, their norms, rotary positions, attention,
// output projection. Model and kind of the layer select variants. Holds views only; one rank, one thread.
#pragma once

#include <cstddef>

#include "kernels/attention_form.h"
#include "search/ops/rotary_frequencies.h"
#include "trainer/blocks/qkv_projection.h"
#include "trainer/blocks/residual_block.h"

namespace autocfg::trainer {

class AttentionBlock : public ResidualBlock {
 public:
  // As ResidualBlock.
  AttentionBlock(const RankShape& shape, MemoryLayout& layout, std::int64_t layer);

  // The unit of the layer's parameters but those of norms.
  std::size_t unit() const { return qkv_.unit(); }

  // Computes y[R,H] = the output for x[R,H], plus x. Stores in `a` what the backward needs.
  void Forward(const Execution& run, const Tensor& x, const AttentionActivations& a, const Tensor& y) const;

  // Recomputes the parts of what Forward stored that recompute=selective names.
  void RecomputeParts(const Execution& run, const Tensor& x, const AttentionActivations& a) const;
  bool recomputes_parts() const;

  // The halves of the backward. The first one computes ws.grad_attn from `grad`, which is OutputGradient. The
  // second one sets dx to the gradient with respect to x, or adds it. Gradients::kInputs: it exchanges a.qkv
  // and, with norms on outputs, a.out. Both compute gradients of parameters; they add to them if
  // `accumulate`.
  void OutputBackward(const Execution& run, const AttentionActivations& a, const Tensor& grad,
                      Gradients gradients, bool accumulate) const;
  void InputBackward(const Execution& run, const Tensor& x, AttentionActivations& a, const Tensor& dx,
                     bool add_to_dx, Gradients gradients, bool accumulate) const;

 private:
  // Norms of q and k: of a.qkv, in place, and of their gradient in ws.grad_qkv. Nothing in a model without.
  void QkNormForward(const Execution& run, const AttentionActivations& a) const;
  void QkNormBackward(const Execution& run, const AttentionActivations& a, bool accumulate) const;
  // Rotates q and k of qkv[T,Q] by their positions, or back. Does nothing in a layer without rotary
  // positions.
  void Rope(const Execution& run, const Tensor& qkv, bool inverse) const;
  // Attention, fused or unfused; the backward turns ws.grad_attn into ws.grad_qkv.
  void CoreForward(const Execution& run, const AttentionActivations& a) const;
  void CoreBackward(const Execution& run, const AttentionActivations& a) const;
  // As attention sees tensors: each chunk is a sequence.
  Tensor ByChunk(const Tensor& t) const;             // [T,...] as [BS/c,c,...]
  Tensor LseByChunk(const Tensor& lse) const;        // [B,N,S] as [BS/c,N,c]
  Tensor ScoresByChunk(const Tensor& scores) const;  // the first BSNc elements of [B,N,S,S] as [BS/c,N,c,c]

  const LayerRun kind_;
  const bool rotates_;
  const std::int64_t chunk_;  // tokens; the whole sequence in a layer without chunks
  const RotaryFrequencies frequencies_;
  const AttentionForm form_;
  QkvProjection qkv_;
  Weight q_norm_, k_norm_;  // absent without norms of q and k
};

}  // namespace autocfg::trainer
