// Random plans with the times of their ops on a device whose links are random too, and how far predictions
// fall short of times.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/cost/cost_model.h"
#include "tests/search/cost/random_runs.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg::test {

// Random legal plans of random models on random links.
struct RandomCase : RandomRun {
  SyntheticDevice device;
};
class RandomCases : public RandomRuns {
 public:
  explicit RandomCases(std::uint64_t seed) : RandomRuns(seed) {}
  RandomCase Next() {
    RandomCase c{RandomRuns::Next(), {}};
    c.device.link_alpha_s = std::pow(10.0, -6 + 3 * Uniform());
    c.device.link_bytes_per_s = std::pow(10.0, 8 + 2 * Uniform());
    return c;
  }
};

inline CostModel ModelOf(const RandomCase& c, double ranks_per_core = 1) {
  return CostModel({c.model, c.workload, LocalRanks(RankCount(c.plan), ranks_per_core)},
                   c.device.Measure(AllOps(c.model, c.workload, c.plan)));
}

// How far below the timed time the closed form is, by schedule, over many cases. Sorts them.
struct Shortfall {
  std::vector<double> of;
  double Median() {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
  }
  double Most() const { return *std::max_element(of.begin(), of.end()); }
};

}  // namespace autocfg::test
