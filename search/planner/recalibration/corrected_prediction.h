// Predictions that are scaled: by what measurements correct, and to times that are known otherwise. Pure,
// thread-safe.
#pragma once

#include "search/cost/cost_model.h"

namespace autocfg {

struct Correction {
  double log_mean = 0;  // multiply a prediction by exp(log_mean)
  double sigma = 0;     // standard deviation of log(measured / corrected) for an unmeasured plan
};

// Scales all parts of `p` by `factor`; the interval collapses to a point.
void Scale(Prediction& p, double factor);

// Sets the 90% interval around p's step time; `sigma` is the standard deviation of its logarithm.
void SetInterval(Prediction& p, double sigma);

// Returns the uncorrected prediction `p` times the correction's factor.
Prediction Corrected(Prediction p, const Correction& correction);

}  // namespace autocfg
