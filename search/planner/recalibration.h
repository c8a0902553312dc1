// What measurements teach about the predictions: how far the model is off, for all plans and by their
// features, and how sure that is. Immutable once fitted, thread-safe.
//
// The logarithm of measured over predicted time is taken as a sum of effects, each drawn from a normal
// distribution around zero: one for all plans (20%), one per layout (tp, pp, dp) and schedule (10% each), one
// of recomputing no layer and one of recomputing all of them (10% each, mixed by the share of layers that
// do), one of even and one of uneven splits (3% each), a slope per doubling of the micro batch (10%), of each
// axis and of the virtual stages (5% each), and what is a plan's own. The posterior is ridge regression with
// these priors, solved in the space of observations as a Gaussian process (Rasmussen and Williams 2006,
// section 2.2). The size of a plan's own effect (at least 2%) and a common scale of the priors are not known:
// a small grid of both is weighted by marginal likelihood (section 5.4.1), so that few observations leave
// wide intervals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/plan/parallel_plan.h"

namespace autocfg {

struct RatioObservation {
  ParallelPlan plan;
  double log_ratio = 0;    // log(measured / predicted)
  double noise_sigma = 0;  // standard error of the measured median, relative
};

struct Correction {
  double log_mean = 0;  // multiply a prediction by exp(log_mean)
  double sigma = 0;     // standard deviation of log(measured / corrected) for a plan not measured yet
};

class Recalibration {
 public:
  // `layers`: the model's. No observation: the priors. Plans are legal, with definite splits.
  Recalibration(std::int64_t layers, const std::vector<RatioObservation>& observations);

  // Takes time quadratic in the number of observations; a microsecond or two for a few dozen.
  Correction For(const ParallelPlan& plan) const;

  // The estimated size of a plan's own effect.
  double residual_sigma() const { return residual_sigma_; }

 private:
  struct Features {
    std::array<std::int64_t, 3> layout;
    Schedule schedule;
    bool even;
    double recomputed;             // share of the layers
    std::array<double, 5> slopes;  // log2 of micro_batch, tp, pp, dp, virtual_stages
  };
  Features FeaturesOf(const ParallelPlan& plan) const;
  static double Covariance(const Features& a, const Features& b);

  std::int64_t layers_;
  std::vector<Features> features_;
  // The mixture over the grid, summed up: with k the covariances of a plan and the observations and v its
  // own, the mean is k . alpha_, and the second moment of the deviation second_own_ v + second_residual_ - k'
  // second_ k.
  std::vector<double> alpha_;
  std::vector<double> second_;  // n x n by rows, symmetric
  double second_own_ = 0;
  double second_residual_ = 0;
  double residual_sigma_ = 0;
};

}  // namespace autocfg
