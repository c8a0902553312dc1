#include "search/fit/irregular_shapes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

namespace autocfg {
namespace {

constexpr double kFar = 3;  // scales of a mean
constexpr int kFewestSteps = 2;

BlockShape WithoutMicroBatch(BlockShape shape) {
  shape.micro_batch = 1;
  return shape;
}

}  // namespace

std::optional<IrregularShapes> FarthestGroup(const std::vector<StepDeviation>& steps,
                                             const std::vector<IrregularShapes>& known) {
  struct Sums {
    double residuals = 0, weights = 0;
    int slower = 0, faster = 0;  // steps that deviate
  };
  std::map<std::pair<BlockShape, bool>, Sums> groups;  // by shape, and whether with all microbatches
  for (const StepDeviation& step : steps) {
    const bool deviates = std::abs(step.residual) * std::sqrt(step.weight) >= 1;
    for (const bool all_micro_batches : {false, true}) {
      Sums& sums =
          groups[{all_micro_batches ? WithoutMicroBatch(step.shape) : step.shape, all_micro_batches}];
      sums.residuals += step.weight * step.residual;
      sums.weights += step.weight;
      if (deviates) ++(step.residual > 0 ? sums.slower : sums.faster);
    }
  }
  std::optional<IrregularShapes> farthest;
  double most = kFar;
  for (const auto& [members, sums] : groups) {
    const IrregularShapes group{members.first, members.second, kIrregularSigma};
    const double deviations = std::abs(sums.residuals) / std::sqrt(sums.weights);
    const int agree = sums.residuals > 0 ? sums.slower : sums.faster;
    if (agree < kFewestSteps || deviations <= most) continue;
    if (std::find(known.begin(), known.end(), group) != known.end()) continue;
    most = deviations;
    farthest = group;
  }
  return farthest;
}

}  // namespace autocfg
