// The time of a step from the costs of its stages, without walking the program: the longest of a few paths
// through the pipeline, then what follows it. Pure, thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// The stages' costs in order (at least one), microbatches per rank, and how many ranks share a core (1 or
// more).
//
// A receive stands right before the compute that needs it and is not overlapped (search/schedule/lower.h), so
// a stage's forward takes f = forward + message (first stage: no message), its backward b = backward +
// message (last stage: none).
//   GPipe: sum f + (m-1) max f, then sum b + (m-1) max b (Huang et al. 2019, with unequal stages).
//   1F1B: (m-1)(f+b) + p(f+b) where stages are equal (Narayanan et al. 2021, section 2.2); where not, the
//   longest path that stays on one stage q between fill and drain, entering before its warm-up forwards or
//   after them.
// Then the data-parallel sum of each stage, the tied embedding's, the scalars' and the update.
Breakdown ClosedForm(std::span<const StageCosts> stages, Schedule schedule, std::int64_t microbatches,
                     double ranks_per_core);

// The compute of a stage's forward or backward when the other ranks of its core idle.
double UnloadedForward(const StageCosts& costs, double ranks_per_core);
double UnloadedBackward(const StageCosts& costs, double ranks_per_core);

// What the pipeline takes at least, since cores are shared: the stages' mean forward and backward time.
double SharedCoreSeconds(std::span<const StageCosts> stages, std::int64_t microbatches);

}  // namespace autocfg
