// Regression with normal priors, against cases worked out by hand.
#include "search/regression/normal_equations.h"

#include <cmath>

#include "Eigen/LU"
#include "gtest/gtest.h"

namespace autocfg {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// One effect: the mean of the prior and of the measurements, weighted by their precisions.
TEST(NormalEquations, OneEffectIsAWeightedMean) {
  NormalEquations equations(1);
  equations.Add({{0, 1}}, 0.3, 4);
  equations.Add({{0, 2}}, 0.5, 1);
  equations.AddPrior(0, VectorXd::Constant(1, 2.0));
  const EffectPosterior posterior = equations.Solve();
  const double precision = 4 + 4 * 1 + 2, right = 4 * 0.3 + 2 * 0.5;
  EXPECT_NEAR(posterior.mean(0), right / precision, 1e-12);
  EXPECT_NEAR(posterior.covariance(0, 0), 1 / precision, 1e-12);
  EXPECT_NEAR(posterior.log_determinant, std::log(precision), 1e-12);
  EXPECT_NEAR(posterior.explained, right * right / precision, 1e-12);
}

// Two effects that only ever act together: their sum is known, their difference stays as it was.
TEST(NormalEquations, WhatMeasurementsDoNotTellApartKeepsItsPrior) {
  NormalEquations equations(2);
  equations.Add({{0, 1}, {1, 1}}, 1, 1e6);
  equations.AddPrior(0, VectorXd::Ones(2));
  const EffectPosterior posterior = equations.Solve();
  EXPECT_NEAR(posterior.mean(0), 0.5, 1e-6);
  EXPECT_NEAR(posterior.mean(1), 0.5, 1e-6);
  const VectorXd sum = VectorXd::Ones(2), difference{{1.0, -1.0}};
  EXPECT_NEAR(sum.dot(posterior.covariance * sum), 1e-6, 1e-9);
  EXPECT_NEAR(difference.dot(posterior.covariance * difference), 2, 1e-9);
}

// A prior with a mean, and effects that are related before anything is measured.
TEST(NormalEquations, ARelatedEffectLeansOnTheMeasuredOne) {
  const MatrixXd covariance{{1.0, 0.6}, {0.6, 1.0}};
  const VectorXd mean{{0.2, 0.1}};
  const MatrixXd precision = covariance.inverse();
  NormalEquations equations(3);
  equations.AddPrior(0, VectorXd::Ones(3));
  equations.AddPrior(1, precision - MatrixXd::Identity(2, 2), precision * mean);
  equations.Add({{1, 1}}, 0.7, 1 / 0.25);
  const EffectPosterior posterior = equations.Solve();
  EXPECT_NEAR(posterior.mean(0), 0, 1e-12);
  EXPECT_NEAR(posterior.mean(1), 0.2 + (0.7 - 0.2) / 1.25, 1e-12);
  EXPECT_NEAR(posterior.mean(2), 0.1 + 0.6 * (0.7 - 0.2) / 1.25, 1e-12);
  EXPECT_NEAR(posterior.covariance(2, 2), 1 - 0.36 / 1.25, 1e-12);
  EXPECT_NEAR((equations.Precision() - equations.Precision().transpose()).norm(), 0, 0);
}

}  // namespace
}  // namespace autocfg
