// Costs of the stages and ranks of a pipeline. Plain values.
#pragma once

#include <vector>

namespace autocfg {

// Costs of one microbatch on a stage of the model, or on a block of a stage (a layer, the embedding, the
// head), from layer_ops and op times, with all ranks at work.
struct StageCosts {
  double forward_s = 0;
  // Recomputation included; of microbatches after the first. Without the weight gradients if the schedule
  // splits backwards.
  double backward_s = 0;
  // What the backward of the first microbatch takes less: it writes the gradients that the others add to.
  double first_saves_s = 0;
  double weight_s = 0;              // weight gradients as an action of their own; otherwise 0
  double weight_first_saves_s = 0;  // as first_saves_s
  double recompute_s = 0;           // of backward_s
  double tp_forward_s = 0;          // of forward_s: communication over the tensor group, and dp_s
  double tp_backward_s = 0;         // of backward_s, without tp_recompute_s
  double tp_recompute_s = 0;        // of recompute_s
  double tp_weight_s = 0;           // of weight_s
  double dp_s = 0;                  // of tp_forward_s and tp_backward_s: over the shard group
  // Of collectives that run beside these computes. Not part of the seconds above.
  double hidden_forward_s = 0;
  double hidden_backward_s = 0;    // recomputation and weight gradients included
  double hidden_first_less_s = 0;  // by which that of the first microbatch is less
  // Ops that the host issues, including messages over the tensor group. Of a block, the seconds above are
  // those of the device alone. Of a stage, each of its actions takes at least as long as the host takes to
  // issue it.
  double forward_ops = 0;
  double backward_ops = 0;  // recomputation included
  double weight_ops = 0;

  double Total() const { return forward_s + backward_s + weight_s; }
  // Of all microbatches.
  double Total(double microbatches) const {
    return microbatches * Total() - first_saves_s - weight_first_saves_s;
  }
  // Of all microbatches.
  double Hidden(double microbatches) const {
    return microbatches * (hidden_forward_s + hidden_backward_s) - hidden_first_less_s;
  }
  double TensorMessages() const { return tp_forward_s + tp_backward_s + tp_recompute_s + tp_weight_s; }
};

// Multiplies all costs by `factor`, the host's too: as if every op took that many times as long.
void Scale(StageCosts& costs, double factor);

// Costs of a pipeline rank that occur once in a step.
struct RankCosts {
  double zero_s = 0;            // zeroing of the step's scalars
  double wait_s = 0;            // with param_overlap: from then on, until the first forward may begin
  double norm_gradients_s = 0;  // sum of the gradients of norms over the tensor group
  double reduce_s = 0;          // data-parallel reduction; with grad_overlap, what its computes do not hide
  double tied_s = 0;            // first and last rank: sum of the tied embedding over both
  double norm_s = 0;            // the sums of squares
  double update_s = 0;
  double gather_s = 0;  // of sharded parameters
  double hidden_s = 0;  // of collectives that run beside computes; not part of the seconds above
};

struct PipelineCosts {
  std::vector<StageCosts> stages;  // of the model, in order
  // of the pipeline, in order; rank r has the stages r, r + ranks, r + 2 ranks, ...
  std::vector<RankCosts> ranks;
  double p2p_s = 0;                // one message between stages, until it can be used
  bool overlaps_messages = false;  // they travel while ranks compute
  double scalars_s = 0;            // sum of the scalars over all ranks
};

}  // namespace autocfg
