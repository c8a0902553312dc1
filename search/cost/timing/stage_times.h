// Times of the stages of a pipeline, as its ranks run them. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "search/cost/timing/pipeline_costs.h"

namespace autocfg {

// Return the seconds of a stage's forward, backward or weight gradients while the other ranks of its core
// idle.
inline double UnloadedForward(const StageCosts& c, double ranks_per_core) {
  return (c.forward_s - c.tp_forward_s) / ranks_per_core + c.tp_forward_s;
}
inline double UnloadedBackward(const StageCosts& c, double ranks_per_core) {
  const double messages = c.tp_backward_s + c.tp_recompute_s;
  return (c.backward_s - messages) / ranks_per_core + messages;
}
inline double UnloadedWeights(const StageCosts& c, double ranks_per_core) {
  return (c.weight_s - c.tp_weight_s) / ranks_per_core + c.tp_weight_s;
}
// Return what the first backward, or the first weight gradients, take less.
inline double UnloadedSaving(const StageCosts& c, double ranks_per_core) {
  return c.first_saves_s / ranks_per_core;
}
inline double UnloadedWeightSaving(const StageCosts& c, double ranks_per_core) {
  return c.weight_first_saves_s / ranks_per_core;
}

// Forward and backward of a stage, or of all stages of a rank. The weight gradients, where backwards are
// split: otherwise 0.
struct StageTime {
  double forward = 0;
  double backward = 0;
  double weights = 0;

  double Total() const { return forward + backward + weights; }
};

// Times of stages, in a step of several microbatches for those after the first. Unless messages overlap, a
// receive is issued right before the compute that needs it (search/schedule/rank_lowering.h), so nothing
// hides it. Refers to the costs.
class PipelineStages {
 public:
  // `ranks_per_core`: how many ranks share a core, 1 or more.
  PipelineStages(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core)
      : PipelineStages(costs, microbatches, ranks_per_core, costs.overlaps_messages) {}
  // `overlaps`: whether messages do, whatever the costs say.
  PipelineStages(const PipelineCosts& costs, std::int64_t microbatches, double ranks_per_core, bool overlaps)
      : costs_(costs),
        overlaps_(overlaps),
        single_(microbatches == 1),
        ranks_per_core_(ranks_per_core),
        ranks_(costs.ranks.size()),
        chunks_(costs.stages.size() / ranks_) {}

  std::size_t ranks() const { return ranks_; }
  std::size_t chunks() const { return chunks_; }
  std::size_t size() const { return costs_.stages.size(); }
  bool overlaps() const { return overlaps_; }

  // Returns the time that a microbatch takes from the end of the stage before it: its message and the
  // compute.
  StageTime At(std::size_t stage) const {
    const StageCosts& c = costs_.stages[stage];
    const StageTime message = MessagesOf(stage);
    return {UnloadedForward(c, ranks_per_core_) + message.forward,
            UnloadedBackward(c, ranks_per_core_) - (single_ ? UnloadedSaving(c, ranks_per_core_) : 0) +
                message.backward,
            UnloadedWeights(c, ranks_per_core_) - (single_ ? UnloadedWeightSaving(c, ranks_per_core_) : 0)};
  }
  // Returns the time that the rank spends on a microbatch: as At, but without messages that overlap.
  StageTime Busy(std::size_t stage) const {
    StageTime time = At(stage);
    if (!overlaps_) return time;
    const StageTime message = MessagesOf(stage);
    time.forward -= message.forward;
    time.backward -= message.backward;
    return time;
  }
  // Returns how much less than At the backward of the first of several microbatches takes; 0 if it is the
  // only one, because At is its time then.
  double FirstSaves(std::size_t stage) const {
    return single_ ? 0 : UnloadedSaving(costs_.stages[stage], ranks_per_core_);
  }
  // Returns the same of the weight gradients.
  double FirstWeightsSave(std::size_t stage) const {
    return single_ ? 0 : UnloadedWeightSaving(costs_.stages[stage], ranks_per_core_);
  }
  double RankFirstSaves(std::size_t rank) const {
    double saves = 0;
    for (std::size_t stage = rank; stage < costs_.stages.size(); stage += ranks_) saves += FirstSaves(stage);
    return saves;
  }
  // Returns the sum of Busy over the rank's stages.
  StageTime OfRank(std::size_t rank) const {
    StageTime t;
    for (std::size_t stage = rank; stage < costs_.stages.size(); stage += ranks_) {
      const StageTime chunk = Busy(stage);
      t.forward += chunk.forward;
      t.backward += chunk.backward;
      t.weights += chunk.weights;
    }
    return t;
  }

 private:
  StageTime MessagesOf(std::size_t stage) const {
    return {stage == 0 ? 0 : costs_.p2p_s, stage + 1 == costs_.stages.size() ? 0 : costs_.p2p_s, 0};
  }

  const PipelineCosts& costs_;
  bool overlaps_;  // messages
  bool single_;    // microbatch
  double ranks_per_core_;
  std::size_t ranks_, chunks_;
};

}  // namespace autocfg
