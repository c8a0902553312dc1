#include "search/shapes/local_dims.h"

namespace autocfg {

LocalDims LocalDimsOf(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan) {
  LocalDims d;
  d.micro_batch = plan.micro_batch;
  d.seq_len = workload.seq_len;
  d.tokens = d.micro_batch * d.seq_len;
  d.rows = SplitsSequence(plan) ? d.tokens / plan.tp : d.tokens;
  d.hidden = model.hidden;
  d.message = d.rows * d.hidden;
  if (ScattersMessages(plan)) d.message = (d.message + plan.tp - 1) / plan.tp * plan.tp;
  d.heads = model.heads / plan.tp;
  d.kv_heads = model.kv_heads / plan.tp;
  d.head_dim = model.head_dim;
  d.attention = d.heads * d.head_dim;
  d.qkv = (d.heads + 2 * d.kv_heads) * d.head_dim;
  d.ffn = model.ffn_hidden / plan.tp;
  d.fc = IsGated(model.activation) ? 2 * d.ffn : d.ffn;
  d.vocab = PaddedVocab(model, plan.tp) / plan.tp;
  return d;
}

}  // namespace autocfg
