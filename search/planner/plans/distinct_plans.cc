#include "search/planner/plans/distinct_plans.h"

#include <algorithm>

namespace autocfg {
namespace {

constexpr int kMostNeighbours = 2;

}  // namespace

int OptionsApart(const ParallelPlan& a, const ParallelPlan& b, PlanOptionTable options) {
  int apart = 0;
  bool overlap = false;
  for (const PlanOption& option : options) {
    if (option.equal(a, b)) continue;
    if (option.overlaps) {
      overlap = true;
    } else {
      ++apart;
    }
  }
  return apart + (overlap ? 1 : 0);
}

std::vector<std::size_t> DistinctPlans(std::span<const ParallelPlan> ranking, std::size_t most) {
  std::vector<std::size_t> chosen;
  int neighbours = 0;
  for (std::size_t i = 0; i < ranking.size() && chosen.size() < most; ++i) {
    const bool near = std::any_of(chosen.begin(), chosen.end(), [&](std::size_t other) {
      return OptionsApart(ranking[i], ranking[other]) <= 1;
    });
    if (near && neighbours == kMostNeighbours) continue;
    neighbours += near ? 1 : 0;
    chosen.push_back(i);
  }
  return chosen;
}

}  // namespace autocfg
