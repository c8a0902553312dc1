// The figures of a cluster that a fit to measured steps may move, with what is known of each beforehand.
// Plain values; pure functions, thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "search/plan/cluster/cluster_spec.h"

namespace autocfg {

struct FigureToFit {
  std::string_view name;           // as in the cluster's JSON
  std::string_view determined_by;  // which steps may tell it from the others, for users
  // Standard deviation of the logarithm before the fit. Rates of a data sheet's peak, which few data tell
  // apart from each other, stay close to the preset's; what depends on the machine or on the framework is
  // left free.
  double prior_sigma = 0;
  double least = 0, most = 0;
  // The figure, or what stands for it where the cluster does not give it.
  double (*get)(const NodeGroup& group) = nullptr;
  void (*set)(NodeGroup& group, double value) = nullptr;
  bool between_nodes = false;  // acts on steps over several nodes alone
};

// All of them. A figure that acts on none of the measured steps keeps its value.
std::span<const FigureToFit> FiguresToFit();

// Throws std::invalid_argument if none has the name.
const FigureToFit& FigureToFitOf(std::string_view name);

}  // namespace autocfg
