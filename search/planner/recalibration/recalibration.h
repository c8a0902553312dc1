// Fits corrections of the predictions to measurements: the model's error for all plans and by plan features,
// and its uncertainty. Immutable once fitted, thread-safe.
//
// The logarithm of measured over predicted time is modelled as a sum of effects, as in a fit of a cluster
// (search/fit). A study's op times are measured, so factors of the parts of a step take the place of the
// cluster's figures there. To first order, a factor of a part changes the step by the part's share of it.
// Each effect is drawn from a zero-mean normal distribution, with these standard deviations:
//
// - 20%: one effect common to all plans
// - times its share of the step: 30% for each part that communicates, the optimizer and the overhead; 15% for
//   the bubble
// - times the share of compute and recompute: 10% for each shape of layers (micro_batch, tp); shapes that are
//   alike err alike, as in a fit of a cluster (search/cost/shape_corrections.h)
// - 10% each: one per layout (tp, pp, dp), one per schedule
// - 10% each: recomputing no layer, recomputing all layers; mixed by the share of layers recomputed
// - 3% each: even splits, uneven splits
// - 5% each: with and without sequence parallelism
// - 3% each: with and without messages that overlap
// - 3% each: with and without sums over the tensor group that overlap products
// - 3% each: with and without reductions, and gathers, of units that overlap
// - 5% each: a slope per doubling of each axis and of the virtual stages
// - at least 0.5%, estimated: the plan's own effect
//
// The posterior is that of search/regression/normal_equations.h. The size of a plan's own effect and a common
// scale of the priors are unknown. A small grid of both is weighted by marginal likelihood (Rasmussen and
// Williams 2006, section 5.4.1), so that few observations leave wide intervals.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "search/breakdown/step_breakdown.h"
#include "search/cost/shape_corrections.h"
#include "search/plan/parallel_plan.h"
#include "search/planner/recalibration/corrected_prediction.h"
#include "search/regression/normal_equations.h"

namespace autocfg {

struct RatioObservation {
  ParallelPlan plan;
  Breakdown predicted;     // of the step, before any correction
  double log_ratio = 0;    // log(measured / predicted)
  double noise_sigma = 0;  // standard error of the measured median, relative
};

class Recalibration {
 public:
  // `layers`: the model's layer count. Without observations, For returns the priors. Requires legal plans
  // with definite splits, and steps that take time.
  Recalibration(std::int64_t layers, const std::vector<RatioObservation>& observations);

  // `predicted`: of the plan's step, before any correction. Takes a few microseconds. Time and memory of a
  // fit grow linearly with the number of observations.
  Correction For(const ParallelPlan& plan, const Breakdown& predicted) const;

  // Returns the estimated size of a plan's own effect.
  double residual_sigma() const { return residual_sigma_; }

  // A ratio that a plan may be below.
  struct Threshold {
    const ParallelPlan* plan = nullptr;
    const Breakdown* predicted = nullptr;
    double log_ratio = 0;
  };
  // Returns, for each k from 0 to their number, the chance that the log ratio of any of the plans from the
  // k-th on is below its threshold; 0 for the last, which is of no plan. The effects that plans share are
  // drawn 128 times, always the same, and the plans' own effects are summed up.
  std::vector<double> ChanceOfAnyFrom(const std::vector<Threshold>& plans) const;

 private:
  // A plan's row of the regression: the effects that it has, times their prior standard deviations. The
  // effects of a layout and of a shape that no measured plan has, or what others do not say of it, are none
  // of the regression: their prior deviations are left over.
  struct Row {
    EffectRow effects;
    double layout_left = 0, shape_left = 0;
    double LeftOver() const { return layout_left * layout_left + shape_left * shape_left; }
  };
  // One point of the grid: sizes of the plans' own effects and of the priors, with the effects that follow.
  struct Hypothesis {
    double residual_sigma = 0;
    double prior_scale = 1;
    double weight = 1;  // of all, 1 in sum
    EffectPosterior effects;
  };
  Row RowOf(const ParallelPlan& plan, const Breakdown& predicted) const;

  std::int64_t layers_;
  ShapeBasis shapes_;                            // of the measured plans
  std::map<MeshOptions, Eigen::Index> layouts_;  // index of the effect of each measured layout
  std::vector<Hypothesis> hypotheses_;           // those of weight, at least one
  // The mixture over the grid, summed up, for n effects. A row x has the mean x . mean_. The second moment of
  // its deviation is x' second_ x + second_residual_, and second_scale_ times what is left over.
  Eigen::VectorXd mean_;    // n
  Eigen::MatrixXd second_;  // n x n, symmetric
  double second_scale_ = 0;
  double second_residual_ = 0;
  double residual_sigma_ = 0;
};

}  // namespace autocfg
