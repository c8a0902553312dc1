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
  const bool norms_inputs = NormsInputs(s.model.norm_placement);
  if (norms_inputs) add_norm(a.norm1, a.ln1, again(LayerPart::kNorm));
  add(a.qkv, e, {s.tokens, s.qkv});
  if (s.model.qk_norm != QkNorm::kNone) {
    add(a.raw_qk, e, {s.tokens, (s.heads + s.kv_heads) * s.head_dim});
    add(a.rstd_qk, stat, {s.tokens, QkNormStatistics(s.model, s)});
  }
  if (IsUnfused(s.plan)) {
    add(a.probabilities, e, {s.micro_batch, s.heads, s.seq_len, s.seq_len}, again(LayerPart::kCoreAttention));
  } else {
    add(a.lse, stat, {s.micro_batch, s.heads, s.seq_len});
  }
  add(a.attn, e, {s.tokens, s.attention});
  add(a.mid, e, {s.rows, s.hidden});
  if (norms_inputs && !s.model.shared_norm) add_norm(a.norm2, a.ln2, again(LayerPart::kNorm));
  add(a.fc, e, {s.tokens, s.fc}, again(LayerPart::kMlp));
  add(a.act, e, {s.tokens, s.ffn}, again(LayerPart::kMlp) || again(LayerPart::kActivation));
  if (NormsOutputs(s.model.norm_placement)) {
    add_norm(a.out_norm1, a.out1);
    add_norm(a.out_norm2, a.out2);
  }
  return tensors;
}

}  // namespace autocfg::trainer
