// What measurements teach about the predictions: how far the model is off, for all plans and by their
// features, and how sure that is. Immutable once fitted, thread-safe.
//
// The logarithm of measured over predicted time is taken as a sum of effects, each drawn from a normal
// distribution around zero: one for all plans (20%), one per layout (tp, pp, dp), schedule and recompute (10%
// each), a slope per doubling of the micro batch (10%) and of each axis (5%), and what is a plan's own. The
// posterior is ridge regression with these priors, solved in the space of observations as a Gaussian process
// (Rasmussen and Williams 2006, section 2.2). The size of a plan's own effect (at least 2%) and a common
// scale of the priors are not known: a small grid of both is weighted by marginal likelihood (section 5.4.1),
// so that few observations leave wide intervals.
#pragma once

#include <array>
#include <cstddef>
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
  // No observation: the priors.
  explicit Recalibration(const std::vector<RatioObservation>& observations);

  Correction For(const ParallelPlan& plan) const;

  // The estimated size of a plan's own effect.
  double residual_sigma() const;

 private:
  struct Features {
    std::array<std::int64_t, 3> layout;
    Schedule schedule;
    Recompute recompute;
    std::array<double, 4> slopes;  // log2 of micro_batch, tp, pp, dp
  };
  // One point of the grid, with its solved regression.
  struct Hypothesis {
    double residual_sigma = 0;
    double prior_scale = 1;
    double weight = 1;
    std::vector<double> cholesky;  // lower triangle of covariance, n x n by rows
    std::vector<double> alpha;     // covariance^-1 y
  };
  static Features FeaturesOf(const ParallelPlan& plan);
  static double Covariance(const Features& a, const Features& b);

  std::vector<Features> features_;
  std::vector<Hypothesis> hypotheses_;
};

}  // namespace autocfg
