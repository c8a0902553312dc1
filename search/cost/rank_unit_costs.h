// What the computes of a rank do not hide of the collectives of its units that run once in a step: the
// reductions of grad_overlap and the gathers of param_overlap, of gradients and parameters that each rank
// keeps whole (docs/engine.md, "Units"). Pure, thread-safe.
#pragma once

#include <cstdint>

#include "search/cost/stage_costs.h"
#include "search/cost/unit_overlap.h"
#include "search/plan/model_stages.h"
#include "search/plan/run_view.h"

namespace autocfg {

// Refers to its arguments. Requires a legal, canonical plan with a resolved split.
class RankUnitCosts {
 public:
  RankUnitCosts(const RunView& run, std::int64_t pipeline_rank, const BlockCosts& blocks);

  // Returns the seconds of the reductions of all units but the norms.
  double AllReductions() const;

  // Returns the seconds from the end of the rank's last compute, which issues these reductions, to the end of
  // the last of them.
  OverlapTime ReductionsAfterCompute() const;

  // Returns how long the rank's first forward waits for parameters that are gathered from the start of the
  // step on, the norms first. Later stages of the rank need theirs after the forwards that surely come before
  // them: those of one microbatch for each rank of the pipeline, in each stage before.
  OverlapTime WaitForParameters(double gather_norms_s) const;

 private:
  LayerRange Layers(std::int64_t chunk) const;
  bool HasFirstStage(std::int64_t chunk) const { return pipeline_rank_ == 0 && chunk == 0; }
  bool HasLastStage(std::int64_t chunk) const;

  const RunView run_;
  const std::int64_t pipeline_rank_;
  const BlockCosts& blocks_;
  const bool has_table_, has_positions_, has_output_;
};

}  // namespace autocfg
