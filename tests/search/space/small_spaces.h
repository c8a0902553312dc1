// Small models, batches and the plans of their spaces, for tests.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
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
