#include "search/cost/stage_shapes.h"

#include "search/ops/memory_sizes.h"

namespace autocfg {
namespace {

void AddNorm(ParameterList& list, const StepShapes& s, const ModelSpec& model) {
  list.Add(s.hidden, true);
  if (model.norm == Norm::kLayerNorm) list.Add(s.hidden, true);
}

std::int64_t RegionBytes(const ParameterList& list, std::int64_t element) {
  std::int64_t bytes = 0;
  for (const ParameterShape& p : list) bytes += AlignedBytes(p.elements * element);
  return bytes;
}

}  // namespace

StepShapes ShapesOf(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan) {
  StepShapes s;
  s.batch = plan.micro_batch;
  s.seq = workload.seq_len;
  s.tokens = s.batch * s.seq;
  s.hidden = model.hidden;
  s.heads = model.heads / plan.tp;
  s.kv_heads = model.kv_heads / plan.tp;
  s.head_dim = model.head_dim;
  s.attention = s.heads * s.head_dim;
  s.qkv = (s.heads + 2 * s.kv_heads) * s.head_dim;
  s.ffn = model.ffn_hidden / plan.tp;
  s.fc = IsGated(model.activation) ? 2 * s.ffn : s.ffn;
  s.vocab = PaddedVocab(model, plan.tp) / plan.tp;
  return s;
}

ParameterList ParametersBeforeLayers(const StepShapes& s, const ModelSpec& model, RankPlace place) {
  ParameterList list;
  if (place.first || (place.last && model.tied_embeddings)) list.Add(s.vocab * s.hidden, false);  // wte
  // wpe
  if (place.first && model.position == Position::kLearned) list.Add(model.max_seq_len * s.hidden, true);
  return list;
}

ParameterList LayerParameters(const StepShapes& s, const ModelSpec& model) {
  ParameterList list;
  const auto linear = [&](std::int64_t in, std::int64_t out, bool bias_replicated) {
    list.Add(in * out, false);
    if (model.bias) list.Add(out, bias_replicated);
  };
  AddNorm(list, s, model);              // ln_1
  linear(s.hidden, s.qkv, false);       // attn.c_attn
  linear(s.attention, s.hidden, true);  // attn.c_proj
  AddNorm(list, s, model);              // ln_2
  linear(s.hidden, s.fc, false);        // mlp.c_fc
  linear(s.ffn, s.hidden, true);        // mlp.c_proj
  return list;
}

ParameterList ParametersAfterLayers(const StepShapes& s, const ModelSpec& model, RankPlace place) {
  ParameterList list;
  if (!place.last) return list;
  AddNorm(list, s, model);                                          // ln_f
  if (!model.tied_embeddings) list.Add(s.vocab * s.hidden, false);  // lm_head
  return list;
}

std::int64_t ParameterRegionBytes(const StepShapes& s, const ModelSpec& model, RankPlace place,
                                  std::int64_t layers, DType type) {
  const std::int64_t element = SizeOf(type);
  return RegionBytes(ParametersBeforeLayers(s, model, place), element) +
         layers * RegionBytes(LayerParameters(s, model), element) +
         RegionBytes(ParametersAfterLayers(s, model, place), element);
}

}  // namespace autocfg
