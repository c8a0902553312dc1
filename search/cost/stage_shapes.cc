#include "search/cost/stage_shapes.h"

namespace autocfg {

StepShapes ShapesOf(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan) {
  StepShapes s;
  s.batch = plan.micro_batch;
  s.seq = workload.seq_len;
  s.tokens = s.batch * s.seq;
  s.hidden = model.hidden;
  s.heads = model.heads / plan.tp;
  s.head_dim = model.head_dim;
  s.attention = s.heads * s.head_dim;
  s.ffn = model.ffn_hidden / plan.tp;
  s.vocab = PaddedVocab(model, plan.tp) / plan.tp;
  return s;
}

std::array<ParameterShape, 12> LayerParameters(const StepShapes& s) {
  return {{
      {s.hidden, true},                     // ln_1.weight
      {s.hidden, true},                     // ln_1.bias
      {s.hidden * 3 * s.attention, false},  // attn.c_attn.weight
      {3 * s.attention, false},             // attn.c_attn.bias
      {s.attention * s.hidden, false},      // attn.c_proj.weight
      {s.hidden, true},                     // attn.c_proj.bias
      {s.hidden, true},                     // ln_2.weight
      {s.hidden, true},                     // ln_2.bias
      {s.hidden * s.ffn, false},            // mlp.c_fc.weight
      {s.ffn, false},                       // mlp.c_fc.bias
      {s.ffn * s.hidden, false},            // mlp.c_proj.weight
      {s.hidden, true},                     // mlp.c_proj.bias
  }};
}

std::int64_t ParameterRegionBytes(const StepShapes& s, const ModelSpec& model, bool first, bool last,
                                  std::int64_t layers, DType type) {
  const std::int64_t element = SizeOf(type);
  std::int64_t layer = 0;
  for (const ParameterShape& p : LayerParameters(s)) layer += PaddedBytes(p.elements * element);
  std::int64_t bytes = layers * layer;
  if (first || last) bytes += PaddedBytes(s.vocab * s.hidden * element);
  if (first) bytes += PaddedBytes(model.max_seq_len * s.hidden * element);
  if (last) bytes += 2 * PaddedBytes(s.hidden * element);
  return bytes;
}

}  // namespace autocfg
