// Applies corrections from measurements to a prediction and its interval. Pure, thread-safe.
#pragma once

#include "search/cost/cost_model.h"
#include "search/planner/recalibration.h"

namespace autocfg {

// Sets the 90% interval around p's step time; `sigma` is the standard deviation of its logarithm.
void SetInterval(Prediction& p, double sigma);

// Returns the uncorrected prediction `p` times the correction's factor.
Prediction Corrected(Prediction p, const Correction& correction);

}  // namespace autocfg
