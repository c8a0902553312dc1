// Lower bounds of a plan's step time that take a fraction of a microsecond, so that a search times only the
// plans that can be among the best. Remembers what consecutive plans have in common. Use one object per
// thread, always with the same costs. Plans: as PlanCosts requires.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "search/cost/plan_costs.h"
#include "search/cost/stage_costs.h"
#include "search/cost/timing/busy_rank_bound.h"
#include "search/plan/model_stages.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// A bound is multiplied by this factor: rounding may have added less than that to it.
inline constexpr double kRoundedBound = 1 - 1e-9;

class StepBounds {
 public:
  // Returns a lower bound of the step: the path through the pipeline that stays on one rank between fill and
  // drain (timing/busy_rank_bound.h), and OutsidePipeline. `host_op_s`: seconds in which the host issues one
  // op.
  double StepAtLeast(PlanCosts& costs, const ParallelPlan& plan, double host_op_s);

  // Returns a lower bound of what the first rank takes before its first forward and after its last compute,
  // and of the sum of the scalars.
  double OutsidePipeline(PlanCosts& costs, const ParallelPlan& plan);

 private:
  static constexpr LayerRange kNoLayers{.count = -1};

  // What the last plan has in common with the next one.
  struct Known {
    MeshOptions mesh{.tp = 0};
    LayerOptions layer;
    MessageOptions messages;
    StateOptions states;
    Schedule schedule = Schedule::kOneFOneB;
    std::int64_t first_rank_layers = 0;
    PlanCosts::Common common;
    PlanCosts::OnceCosts first_rank;
    struct Stage {
      LayerRange layers = kNoLayers;
      StageCosts without_recompute;
    };
    std::array<Stage, 4> stages;  // by whether it is the first, and the last
  };

  void Know(PlanCosts& costs, const ParallelPlan& plan);  // sets known_
  // The following need known_.
  StageCosts StageAtLeast(const ParallelPlan& plan, LayerRange layers, bool first, bool last,
                          double host_op_s);
  void FindAlikeRanks(const PlanCosts& costs, const ParallelPlan& plan, double host_op_s);  // sets ranks_
  // What delays the first rank's first forward, and what follows its last compute but the scalars.
  double FirstRankAtLeast(const PlanCosts& costs, const ParallelPlan& plan) const;

  Known known_;
  std::vector<AlikeRanks> ranks_;
};

}  // namespace autocfg
