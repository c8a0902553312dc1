// Corrects the predicted times of blocks (layers, output layers) by what a calibration measured of their
// shapes. Immutable and thread-safe.
#pragma once

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
// far from all of them, where the prior's deviation remains.
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

// Returns the correlated part of the covariance of two shapes' log factors: prior_sigma^2 (1 - own) exp(-d /
// octaves).
double ShapeCovariance(const BlockCorrections& corrections, const BlockShape& a, const BlockShape& b);

}  // namespace autocfg
