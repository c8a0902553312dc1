#include "trainer/layout/layer_activations.h"

#include <utility>

namespace autocfg::trainer {

std::vector<LayerTensor> LayerTensors(const RankShape& s, LayerActivations& a) {
  const DType e = s.workload.precision.compute, stat = s.workload.precision.statistics;
  const auto again = [&](LayerPart part) { return RecomputesPart(s.plan, part); };
  std::vector<LayerTensor> tensors;
  const auto add = [&](Tensor& tensor, DType type, std::vector<std::int64_t> shape, bool recomputed = false) {
    tensors.push_back({&tensor, type, std::move(shape), recomputed});
  };
  const auto add_norm = [&](NormStatistics& statistics, Tensor& rows, bool recomputed = false) {
    if (HasMean(s.model.norm)) add(statistics.mean, stat, {s.rows}, recomputed);
    add(statistics.rstd, stat, {s.rows}, recomputed);
    add(rows, e, {s.rows, s.hidden}, recomputed);
  };
  const NormPlacement norms = s.model.norm_placement;
  AttentionActivations& attention = a.attention;
  if (NormsInputs(norms)) add_norm(attention.norm, attention.ln, again(LayerPart::kNorm));
  add(attention.qkv, e, {s.tokens, s.qkv});
  if (s.model.qk_norm != QkNorm::kNone) {
    add(attention.raw_qk, e, {s.tokens, (s.heads + s.kv_heads) * s.head_dim});
    add(attention.rstd_qk, stat, {s.tokens, QkNormStatistics(s.model, s)});
  }
  if (IsUnfused(s.plan)) {
    add(attention.probabilities, e, {s.micro_batch, s.heads, s.seq_len, s.seq_len},
        again(LayerPart::kCoreAttention));
  } else {
    add(attention.lse, stat, {s.micro_batch, s.heads, s.seq_len});
  }
  add(attention.attn, e, {s.tokens, s.attention});
  if (NormsOutputs(norms)) add_norm(attention.out_norm, attention.out);
  add(a.mid, e, {s.rows, s.hidden});
  FeedForwardActivations& ffn = a.feed_forward;
  if (NormsInputs(norms) && !s.model.shared_norm) add_norm(ffn.norm, ffn.ln, again(LayerPart::kNorm));
  add(ffn.fc, e, {s.tokens, s.fc}, again(LayerPart::kMlp));
  add(ffn.act, e, {s.tokens, s.ffn}, again(LayerPart::kMlp) || again(LayerPart::kActivation));
  if (NormsOutputs(norms)) add_norm(ffn.out_norm, ffn.out);
  return tensors;
}

}  // namespace autocfg::trainer
