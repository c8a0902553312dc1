#include "search/shapes/local_dims.h"

#include "search/plan/rank_mesh.h"

namespace autocfg {

LocalDims LocalDimsOf(const RunView& run) {
  LocalDims d;
  d.micro_batch = run.plan.micro_batch;
  d.seq_len = run.workload.seq_len;
  d.tokens = d.micro_batch * d.seq_len;
  d.rows = SplitsSequence(run.plan) ? d.tokens / run.plan.tp : d.tokens;
  d.hidden = run.model.hidden;
  d.message = d.rows * d.hidden;
  if (ScattersMessages(run.plan)) d.message = (d.message + run.plan.tp - 1) / run.plan.tp * run.plan.tp;
  d.heads = run.model.heads / run.plan.tp;
  d.kv_replicas = KvReplicas(run.model, run.plan);
  d.kv_heads = run.model.kv_heads * d.kv_replicas / run.plan.tp;
  d.head_dim = run.model.head_dim;
  d.attention = d.heads * d.head_dim;
  d.qkv = (d.heads + 2 * d.kv_heads) * d.head_dim;
  d.ffn = run.model.ffn_hidden / run.plan.tp;
  d.fc = IsGated(run.model.activation) ? 2 * d.ffn : d.ffn;
  d.vocab = PaddedVocab(run.model, run.plan.tp) / run.plan.tp;
  return d;
}

}  // namespace autocfg
