// Finds irregular shapes (search/plan/cluster/calibration.h) by how far measured steps are from a fit. Pure,
// thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "search/plan/cluster/calibration.h"

namespace autocfg {

// The standard deviation of the log factor that the layers of an irregular group share.
inline constexpr double kIrregularSigma = 0.3;
// The logarithm of the prior odds against an irregular group: about one in twenty is.
inline constexpr double kIrregularLogOdds = 3;

// One measured step: the shape of its layers, and how far it is from the fit.
struct StepDeviation {
  BlockShape shape;
  double residual = 0;  // of the logarithm
  double weight = 1;    // the inverse of its squared scale
};

// Returns the group with the largest weighted mean of residuals, over the scale of that mean, if it is above
// 3; with sigma kIrregularSigma. Considers groups of which two steps or more deviate to the side of the mean,
// each by its own scale or more, except groups in `known`.
std::optional<IrregularShapes> FarthestGroup(const std::vector<StepDeviation>& steps,
                                             const std::vector<IrregularShapes>& known);

}  // namespace autocfg
