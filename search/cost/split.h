// split=auto: which layers each stage gets, balanced by predicted time. One object of CostModel per thread,
// as there.
#pragma once

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// The plan with split=auto made definite; any other plan as it is.
//
// All layers of a model are alike, so a split is first of all how many layers each pipeline rank has. It is
// chosen so that the largest time of a rank per microbatch (forward and backward of its layers, on the first
// rank the embedding's, on the last one the output layer's) is the least there is, with at least one layer
// per stage. Of the splits that reach it, the even one where it is among them; else the one closest to even,
// ranks with one more placed first. The layers of a rank are spread over its chunks as evenly as they go,
// chunks with one more placed last (split.cc says why).
//
// The result is canonical: split=even where all stages have the same number of layers, else explicit;
// recompute=full where full:K leaves no stage a layer that does not recompute. Works where the layers do not
// divide by pp x vpp; under full:K a stage's time depends on how many of its layers recompute, and the choice
// takes that into account. Requires a legal plan that CheckPredictable takes. Where a time is not finite
// (nothing measured), the layers' number alone decides. About a microsecond.
ParallelPlan ResolveSplit(CostModel& costs, const ParallelPlan& plan);

}  // namespace autocfg
