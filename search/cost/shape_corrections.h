// Corrects the predicted times of blocks (layers, output layers) by what a calibration measured of their
// shapes. Immutable and thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/plan/cluster/calibration.h"

namespace autocfg {

// The distribution of the logarithm of a block's true time over the model's.
struct LogCorrection {
  double mean = 0;
  double sigma = 0;
};

// Kriging (Rasmussen and Williams 2006, section 2.2) with an exponential kernel over the logarithms of a
// shape's sizes: a measured shape has its own correction; others lean on the nearest, and return to the model
// far from all of them, where the prior's deviation remains. What is measured of irregular shapes moves
// others less, but reaches those of their own group that were not measured.
class ShapeCorrections {
 public:
  ShapeCorrections() = default;  // none: mean and deviation 0
  // Requires corrections that Validate(Calibration) accepts. Takes time with the third power of the number of
  // shapes.
  explicit ShapeCorrections(const BlockCorrections& corrections);

  // Takes time with the square of the number of shapes, but for a measured shape.
  LogCorrection At(const BlockShape& shape) const;

 private:
  BlockCorrections corrections_;  // shapes ascending
  std::vector<double> weights_;   // inverse covariance times the log factors
  std::vector<double> factor_;    // lower Cholesky factor of the covariance, by rows
};

// Returns the variance of a shape's log factor before it is measured: prior_sigma^2, and sigma^2 of each
// group of irregular shapes that holds it.
double ShapeVariance(const BlockCorrections& corrections, const BlockShape& shape);

// Returns the part of that variance that the shape shares with no other: prior_sigma^2 own, and what keeps
// the covariance matrix of alike shapes positive.
double OwnVariance(const BlockCorrections& corrections, const BlockShape& shape);

// Returns the correlated part of the covariance of two shapes' log factors: prior_sigma^2 (1 - own) exp(-d /
// octaves), and sigma^2 of each group of irregular shapes that holds both.
double ShapeCovariance(const BlockCorrections& corrections, const BlockShape& a, const BlockShape& b);

// The correlated log factors of a set of shapes as sums of independent ones, for a regression that estimates
// them. Immutable and thread-safe.
class ShapeBasis {
 public:
  ShapeBasis() = default;  // no shape is measured, and none deviates
  // `prior`: how log factors are related; its own shapes are not used. `measured`: any order, may repeat.
  ShapeBasis(const BlockCorrections& prior, std::vector<BlockShape> measured);

  // The number of independent factors: of measured shapes.
  std::int64_t size() const { return static_cast<std::int64_t>(measured_.size()); }

  // A shape's log factor is the sum of `measured` times independent factors with deviation 1, and of a factor
  // of its own with this variance: 0 if the shape is measured.
  struct Coordinates {
    std::vector<double> measured;  // [size()]
    double own_variance = 0;
  };
  // Takes time with the square of the number of measured shapes.
  Coordinates At(const BlockShape& shape) const;

 private:
  BlockCorrections prior_;
  std::vector<BlockShape> measured_;  // ascending, each once
  std::vector<double> factor_;        // lower Cholesky factor of their covariance, by rows
};

}  // namespace autocfg
