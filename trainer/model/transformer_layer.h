// One transformer layer on one microbatch: attention and feed-forward, one after the other or side by side,
// with norms on their inputs, their outputs or both, split over the tensor group, with the variants that the
// model selects. docs/engine.md lists its
// ops in order. Holds views only; one rank, one thread.
#pragma once

#include "kernels/attention_form.h"
#include "search/ops/rotary_frequencies.h"
#include "trainer/layout/memory_layout.h"
#include "trainer/model/norm.h"
#include "trainer/model/qkv_projection.h"
#include "trainer/parallel/execution.h"

namespace autocfg::trainer {

class TransformerLayer {
 public:
  // `layer` is a layer of the model that the rank holds. `shape` and `layout` (resolved) must outlive the
  // result.
  TransformerLayer(const RankShape& shape, MemoryLayout& layout, std::int64_t layer);

  // The unit of all parameters but those of norms.
  std::size_t unit() const { return c_attn_.unit(); }

  // Computes out[R,H] from a.x[R,H]. Stores in `a` what Backward needs.
  void Forward(const Execution& run, const LayerActivations& a, const Tensor& out) const;

  // Recomputes, from a.x, what Forward stored in `a`, or in RecomputeParts what recompute=selective names.
  void Recompute(const Execution& run, const LayerActivations& a) const;
  void RecomputeParts(const Execution& run, const LayerActivations& a) const;
  bool recomputes_parts() const { return RecomputesInputs(shape_.plan) || RecomputesScores(shape_.plan); }

  // Replaces grad[R,H], the gradient with respect to the layer's output, by the gradient with respect to its
  // input. Computes the parameter gradients too; adds to them if `accumulate`.
  void Backward(const Execution& run, const LayerActivations& a, const Tensor& grad, bool accumulate) const;

  // The two parts of a backward, of the same activations. InputGradient writes to `input_grad`[R,H] the
  // gradient with respect to the layer's input, and the gradients of norms (adds to them if `accumulate`).
  // grad[R,H] stays as it is, for WeightGradient, which computes the other parameter gradients.
  //
  // What WeightGradient reads besides must outlive the workspace's next use. So InputGradient exchanges three
  // activations that it has read for tensors of the workspace, of the same shapes: on return a.qkv and a.fc
  // are the gradients with respect to them, a.mid that with respect to the output of attention, with its
  // residual. With a parallel residual that is grad, and a.mid stays.
  //
  // With norms on outputs, `input_grad` is `grad`, which is updated in place. WeightGradient does not read
  // it: a.out1 and a.out2 are exchanged instead, for the gradients with respect to them.
  void InputGradient(const Execution& run, LayerActivations& a, const Tensor& grad, const Tensor& input_grad,
                     bool accumulate) const;
  void WeightGradient(const Execution& run, const LayerActivations& a, const Tensor& grad,
                      bool accumulate) const;

 private:
  // Norms of q and k: of a.qkv, in place, and of their gradient in ws.grad_qkv. Nothing in a model without.
  void QkNormForward(const Execution& run, const LayerActivations& a) const;
  void QkNormBackward(const Execution& run, const LayerActivations& a, bool accumulate) const;
  // Rotates q and k of qkv[T,Q] by their positions, or back. Does nothing in a layer without rotary
  // positions.
  void Rope(const Execution& run, const Tensor& qkv, bool inverse) const;
  // Attention, fused or unfused; the backward turns ws.grad_attn into ws.grad_qkv.
  void AttentionForward(const Execution& run, const LayerActivations& a) const;
  void AttentionBackward(const Execution& run, const LayerActivations& a) const;
  bool norms_outputs() const { return NormsOutputs(shape_.model.norm_placement); }
  // What attention reads, and what feed-forward reads: the result of its own norm, or of the shared one; with
  // norms on outputs alone, the residual stream.
  const Tensor& Ln1(const LayerActivations& a) const {
    return NormsInputs(shape_.model.norm_placement) ? a.ln1 : a.x;
  }
  const Tensor& Ln2(const LayerActivations& a) const {
    if (!NormsInputs(shape_.model.norm_placement)) return a.mid;
    return shape_.model.shared_norm ? a.ln1 : a.ln2;
  }
  // Norms on inputs, if the layer has them.
  void Norm1Forward(const Execution& run, const LayerActivations& a) const;
  void Norm2Forward(const Execution& run, const LayerActivations& a) const;
  void FcForward(const Execution& run, const LayerActivations& a) const;
  // The forward up to the activation.
  void ForwardHead(const Execution& run, const LayerActivations& a) const;
  // The backward of the norm before the feed-forward block: dx (= or +=) the gradient of what the norm read.
  // Without that norm, adds grad_ln2 to dx.
  void Norm2Backward(const Execution& run, const Tensor& grad_ln2, const LayerActivations& a,
                     const Tensor& dx, bool add_to_dx, bool accumulate) const;
  // That of the norm before attention. A shared norm adds to the gradients of its parameters, which
  // Norm2Backward wrote.
  void Norm1Backward(const Execution& run, const Tensor& grad_ln1, const LayerActivations& a,
                     const Tensor& dx, bool add_to_dx, bool accumulate) const;
  // How attention or feed-forward ends: its last product, x W + b, and the norm on its output, if there is
  // one, with what that reads and stores.
  struct BlockEnd {
    const LinearParameters& proj;
    const NormLayer& norm;
    const Tensor& out;
    const NormStatistics& statistics;
  };
  BlockEnd AttentionEnd(const LayerActivations& a) const {
    return {attn_proj_, out_norm_1_, a.out1, a.out_norm1};
  }
  BlockEnd MlpEnd(const LayerActivations& a) const { return {mlp_proj_, out_norm_2_, a.out2, a.out_norm2}; }
  // Adds the output of a block to the residual stream: y = x W + b, normed and scaled, plus `residual`.
  void AddBlock(const Execution& run, const BlockEnd& block, const Tensor& x, const Tensor& residual,
                const Tensor& y) const;
  // Returns the gradient with respect to a block's x W + b, given `grad`, that of the residual stream: `grad`
  // itself, or ws.grad_block, if outputs are normed or scaled. Computes the gradients of the norm too.
  const Tensor& BlockGradient(const Execution& run, const BlockEnd& block, const Tensor& grad,
                              bool accumulate) const;
  Tensor BySequence(const Tensor& t) const;  // a tensor [T,...] viewed as [B,S,...]
  // As attention sees tensors: each chunk is a sequence.
  Tensor ByChunk(const Tensor& t) const;             // [T,...] as [BS/c,c,...]
  Tensor LseByChunk(const Tensor& lse) const;        // [B,N,S] as [BS/c,N,c]
  Tensor ScoresByChunk(const Tensor& scores) const;  // the first BSNc elements of [B,N,S,S] as [BS/c,N,c,c]

  const RankShape& shape_;
  Workspace& workspace_;
  const LayerRun kind_;
  const bool rotates_;
  const std::int64_t chunk_;  // tokens; the whole sequence in a layer without chunks
  const RotaryFrequencies frequencies_;
  const AttentionForm attention_form_;
  NormLayer norm_1_;
  QkvProjection c_attn_;
  Weight q_norm_, k_norm_;  // absent without norms of q and k
  LinearParameters attn_proj_;
  NormLayer norm_2_;
  LinearParameters c_fc_, mlp_proj_;
  NormLayer out_norm_1_, out_norm_2_;
};

}  // namespace autocfg::trainer
