// Small models, batches and the plans of their spaces, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/plan_options.h"
#include "search/plan/workload.h"
#include "search/space/search_space.h"

namespace autocfg::test {

inline ModelSpec Model(std::int64_t layers = 4, std::int64_t heads = 4) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = 32 * heads;
  model.heads = heads;
  model.vocab = 1000;
  FillDefaults(model);
  return model;
}

inline Workload Batch(std::int64_t global_batch) { return {.global_batch = global_batch, .seq_len = 64}; }

// All values of the options that are derived if they are not named, so that each is a plan of its own.
inline AxisValues EveryDerivedValue() {
  std::vector<std::string> recompute = {"none", "full:*"};
  for (const LayerParts parts : AllLayerParts())
    recompute.push_back(RecomputeText({{}, {.recompute = Recompute::kSelective, .recompute_parts = parts}}));
  return {{"recompute", recompute},
          {"split", {"even", "auto"}},
          {"p2p_overlap", {"0", "1"}},
          {"scatter_gather", {"0", "1"}}};
}

// Returns all plans that a space leaves open: each of its alternatives with each of its depths. `each` is
// called with the alternatives of each plan.
inline std::vector<ParallelPlan> AllAlternatives(
    const SearchSpace& space,
    const std::function<void(std::span<const SearchSpace::Alternative>)>& each = {}) {
  std::vector<ParallelPlan> plans;
  const auto visit = [&](std::span<const SearchSpace::Alternative> alternatives) {
    if (each) each(alternatives);
    for (const SearchSpace::Alternative& alternative : alternatives) {
      for (const SearchSpace::RecomputeValue& depth : alternative.depths) {
        plans.push_back(alternative.plan);
        depth.SetIn(plans.back());
      }
      for (const SearchSpace::RecomputeValue& parts : alternative.parts) {
        plans.push_back(alternative.plan);
        parts.SetIn(plans.back());
      }
    }
    return true;
  };
  EXPECT_FALSE(space.ForEachPlan(visit).ended_at);
  return plans;
}

// Returns the legal plans in the order of the space, and writes its counts if asked.
inline std::vector<ParallelPlan> Legal(const SearchSpace& space, SearchSpace::Counts* counts = nullptr) {
  std::vector<ParallelPlan> plans;
  const SearchSpace::Counts found = space.ForEachLegal([&plans](const ParallelPlan& plan) {
    plans.push_back(plan);
    return true;
  });
  if (counts != nullptr) *counts = found;
  return plans;
}

inline std::int64_t IllegalCount(const SearchSpace::Counts& counts) {
  return std::accumulate(counts.illegal.begin(), counts.illegal.end(), std::int64_t{0});
}

}  // namespace autocfg::test
