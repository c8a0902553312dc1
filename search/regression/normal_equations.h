// Linear regression of logarithms of measured over predicted time on effects that have normal priors
// (Rasmussen and Williams 2006, section 2.1). A fit of a cluster solves it again and again around its best
// guess (cluster_fit.h), a study after each round of trials (search/planner/recalibration/recalibration.h).
// Not thread-safe.
#pragma once

#include <utility>
#include <vector>

#include "Eigen/Core"

namespace autocfg {

// The effects that act on a measurement, each once: its index, and by how much it acts.
using EffectRow = std::vector<std::pair<Eigen::Index, double>>;

// What is known of the effects after the measurements.
struct EffectPosterior {
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;
  double log_determinant = 0;  // of its inverse, the precision
  double explained = 0;        // right' mean: by how much the effects lower the sum of squares
};

class NormalEquations {
 public:
  explicit NormalEquations(Eigen::Index effects);

  // Adds a measurement: `y` is the row's sum of effects and noise, `weight` the inverse of the noise's
  // variance.
  void Add(const EffectRow& row, double y, double weight);

  // Adds a prior of the effects from `first` on: their precision (symmetric), and the precision times their
  // mean.
  void AddPrior(Eigen::Index first, const Eigen::MatrixXd& precision, const Eigen::VectorXd& pull);
  // The same of independent effects around zero.
  void AddPrior(Eigen::Index first, const Eigen::VectorXd& precision);

  // The precision of the effects (symmetric), and the precision times their mean.
  Eigen::MatrixXd Precision() const;
  const Eigen::VectorXd& right() const { return right_; }

  // Requires a positive definite precision: any prior of every effect makes it so.
  EffectPosterior Solve() const;

 private:
  Eigen::MatrixXd upper_;  // upper triangle of the precision
  Eigen::VectorXd right_;
};

}  // namespace autocfg
