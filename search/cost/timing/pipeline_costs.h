// What the parts of a pipeline cost, and what a step is made of. Plain values.
#pragma once

#include <vector>

namespace autocfg {

// Seconds of one step; the parts add up to the whole.
struct Breakdown {
  double compute = 0;
  double recompute = 0;  // its tensor-parallel communication included
  double tp_comm = 0;
  double pp_comm = 0;
  double dp_comm = 0;
  double bubble = 0;
  double optimizer = 0;
  double overhead = 0;

  double Total() const {
    return compute + recompute + tp_comm + pp_comm + dp_comm + bubble + optimizer + overhead;
  }
};

// What a microbatch costs on a stage of the model, from layer_ops and op times, all ranks at work; or on a
// part of a stage.
struct StageCosts {
  double forward_s = 0;
  double backward_s = 0;      // recomputation included
  double recompute_s = 0;     // of backward_s
  double tp_forward_s = 0;    // of forward_s: communication over the tensor group
  double tp_backward_s = 0;   // of backward_s, without tp_recompute_s
  double tp_recompute_s = 0;  // of recompute_s
  // Ops that the host issues, messages over the tensor group too. Of a part, the seconds above are those of
  // the device alone; of a stage, its forward and its backward take as long as the host takes to issue them
  // where that is longer.
  double forward_ops = 0;
  double backward_ops = 0;  // recomputation included

  double Total() const { return forward_s + backward_s; }
};

// What a rank of the pipeline does once in a step.
struct RankCosts {
  double zero_s = 0;    // zeroing of gradients and scalars
  double reduce_s = 0;  // data-parallel reduction
  double norm_s = 0;    // the sums of squares
  double update_s = 0;
};

struct PipelineCosts {
  std::vector<StageCosts> stages;  // of the model, in order
  // of the pipeline, in order; rank r has the stages r, r + ranks, r + 2 ranks, ...
  std::vector<RankCosts> ranks;
  double p2p_s = 0;      // one message between stages, until it can be used
  double tied_s = 0;     // sum of the tied embedding over first and last rank
  double scalars_s = 0;  // sum of the scalars over all ranks
};

}  // namespace autocfg
