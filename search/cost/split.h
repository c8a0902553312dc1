// split=auto: assigns layers to stages, balanced by predicted time. As CostModel requires, use one CostModel
// object per thread.
#pragma once

#include <functional>

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// Returns the plan with split=auto resolved; any other plan unchanged. An engine that makes its
// stages itself has no even ones: of either split=even or auto it takes its own (weighted_stages.h). For all
// others:
//
// In a model whose layers are of one kind, a split is mainly the number of layers of each pipeline rank. The
// split minimizes the largest time of a rank per microbatch, with at least one layer per stage. A rank's time
// is the forward and backward of its layers, plus the embedding's on the first rank and the output layer's on
// the last. With several kinds, which layers a stage has counts too, and the split minimizes the largest time
// of a stage.
//
// Among the optimal splits, the even one is preferred, otherwise the one closest to even, with larger ranks
// first. The layers of a rank are spread over its chunks as evenly as possible, with larger chunks last
// (split.cc says why).
//
// The result is canonical: split=even if all stages have the same number of layers, otherwise explicit;
// recompute=full if full:K leaves no stage with a layer that does not recompute. The layers need not be
// divisible by pp x vpp. Under full:K, a stage's time includes how many of its layers recompute. If a time is
// not finite (nothing measured), only the number of layers counts. Requires a legal plan that
// CheckPredictable accepts. Takes about a microsecond, or some 20 with several kinds.
ParallelPlan ResolveSplit(CostModel& costs, const ParallelPlan& plan);

// Does the same, but of split=auto and an even split takes the one that is predicted to be faster: the
// balance does not see messages between stages, which may be cheaper of an even split. Of one that fits and
// one that does not, it takes the former. Takes two predictions if the splits differ.
ParallelPlan ResolveToFaster(CostModel& costs, const ParallelPlan& plan,
                             const std::function<Prediction(const ParallelPlan&)>& predict);

// Returns the stage options of ResolveSplit for a plan with split=auto.
StageOptions BalancedStages(CostModel& costs, const ParallelPlan& plan);

}  // namespace autocfg
