// Fits a cluster's figures, and corrections for shapes of layers, to measured steps. Pure, thread-safe.
//
// The logarithm of a step's time is predicted by the cost model, from figures x (fitted_figures.h) and from
// the log factors u of the layers and v of the output layers of each measured shape
// (search/plan/cluster/calibration.h). What is minimised is the sum of
//
// - over measurements: a robust loss of the deviation, that of Student's t distribution with 4 degrees of
//   freedom (Lange, Little and Taylor 1989), whose scale is estimated, for steps within one node and for
//   others. Of steps over several nodes, those slower than predicted scatter twice as far as faster ones (the
//   two-piece distribution of Fernandez and Steel 1998);
// - over figures: ((log x - log prior) / prior_sigma)^2;
// - over shapes: u' K^-1 u and v' K^-1 v, K the covariance of shape_corrections.h, which shrinks the factors
//   towards the model and towards those of similar shapes. The evidence chooses the scale of K. Of the groups
//   that are farthest from the fit, it chooses the irregular ones (irregular_shapes.h), which K lets be far
//   from all others. Predictions by the calibration use the same K.
//
// The minimum is found by Levenberg and Marquardt's method (Marquardt 1963), with derivatives by
// differences. The deviations of figures and factors are those of the normal approximation at the minimum.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search/fit/measurements.h"
#include "search/plan/cluster/calibration.h"
#include "search/plan/cluster/cluster_spec.h"

namespace autocfg {

struct ClusterFit {
  ClusterSpec cluster;  // with its calibration
  // By measurement: log(measured / predicted) by that cluster.
  std::vector<double> residuals;
};

// The most measurements and shapes that a fit takes.
inline constexpr std::size_t kMostMeasurements = 20'000;
inline constexpr std::size_t kMostShapes = 500;

// Fits the cluster of `measurements`. InvalidArgument: no or too many measurements or shapes, or figures
// that the cluster lacks. Takes seconds for a thousand measurements. `watch`: whether to go on, asked often;
// Cancelled once it says no.
absl::StatusOr<ClusterFit> FitCluster(const Measurements& measurements, const ShapePriors& priors = {},
                                      const std::function<bool()>& watch = {});

}  // namespace autocfg
