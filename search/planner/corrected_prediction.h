// A prediction as measurements correct it, with the interval that is left. Pure, thread-safe.
#pragma once

#include "search/cost/cost_model.h"
#include "search/planner/recalibration.h"

namespace autocfg {

// The 90% interval around p's step time, whose logarithm has the standard deviation `sigma`.
void SetInterval(Prediction& p, double sigma);

// `p`, as it was predicted, times the correction's factor.
Prediction Corrected(Prediction p, const Correction& correction);

}  // namespace autocfg
