// Fits corrections of the predictions to measurements: the model's error for all plans and by plan features,
// and its uncertainty. Immutable once fitted, thread-safe.
//
// The logarithm of measured over predicted time is modelled as a sum of effects. Each effect is drawn from a
// zero-mean normal distribution, with these standard deviations:
//
// - 20%: one effect common to all plans
// - 10% each: one per layout (tp, pp, dp), one per schedule
// - 10% each: recomputing no layer, recomputing all layers; mixed by the share of layers recomputed
// - 3% each: even splits, uneven splits
// - 5% each: with and without sequence parallelism
// - 3% each: with and without messages that overlap
// - 3% each: with and without sums over the tensor group that overlap products
// - 10%: a slope per doubling of the micro batch
// - 5% each: a slope per doubling of each axis and of the virtual stages
// - at least 2%, estimated: the plan's own effect
//
// The posterior is Bayesian linear regression with these priors, solved in the space of effects (Rasmussen
// and Williams 2006, section 2.1). The size of a plan's own effect and a common scale of the priors are
// unknown. A small grid of both is weighted by marginal likelihood (section 5.4.1), so that few observations
// leave wide intervals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

struct RatioObservation {
  ParallelPlan plan;
  double log_ratio = 0;    // log(measured / predicted)
  double noise_sigma = 0;  // standard error of the measured median, relative
};

struct Correction {
  double log_mean = 0;  // multiply a prediction by exp(log_mean)
  double sigma = 0;     // standard deviation of log(measured / corrected) for an unmeasured plan
};

class Recalibration {
 public:
  // `layers`: the model's layer count. Without observations, For returns the priors. Requires legal plans
  // with definite splits.
  Recalibration(std::int64_t layers, const std::vector<RatioObservation>& observations);

  // Takes about a microsecond. Time and memory of a fit grow linearly with the number of observations.
  Correction For(const ParallelPlan& plan) const;

  // Returns the estimated size of a plan's own effect.
  double residual_sigma() const { return residual_sigma_; }

 private:
  using Layout = std::array<std::int64_t, 3>;  // tp, pp, dp
  // A plan's row of the regression: the effects that it has, times their prior standard deviations.
  struct Row {
    std::vector<std::pair<std::size_t, double>> effects;  // (index of the effect, value), by index
    bool known_layout = false;                            // otherwise its layout's effect is not among them
  };
  Row RowOf(const ParallelPlan& plan) const;

  std::int64_t layers_;
  std::map<Layout, std::size_t> layouts_;  // index of the effect of each measured layout
  // The mixture over the grid, summed up, for n effects. A row x has the mean x . mean_. The second moment of
  // its deviation is x' second_ x + second_residual_, and second_scale_ times the prior variance of its
  // layout if that was never measured.
  std::vector<double> mean_;    // n
  std::vector<double> second_;  // n x n by rows, symmetric
  double second_scale_ = 0;
  double second_residual_ = 0;
  double residual_sigma_ = 0;
};

// Sets the 90% interval around p's step time; `sigma` is the standard deviation of its logarithm.
void SetInterval(Prediction& p, double sigma);

// Returns the uncorrected prediction `p` times the correction's factor.
Prediction Corrected(Prediction p, const Correction& correction);

}  // namespace autocfg
