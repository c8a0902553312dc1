// The time of a step from the costs of its stages, without walking the program: the longest of a few paths
// through the pipeline, then what follows it. Pure, thread-safe.
#pragma once

#include <cstdint>

#include "search/cost/cost_model.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// The costs of a pipeline (at least one rank, as many stages on each), microbatches per rank, and how many
// ranks share a core (1 or more).
//
// A receive stands right before the compute that needs it and is not overlapped (search/schedule/lower.cc),
// so a stage's forward takes f = forward + message (first stage of the model: no message), its backward b =
// backward + message (last stage: none).
//   GPipe: sum f + (m-1) max f, then sum b + (m-1) max b (Huang et al. 2019, with unequal stages).
//   1F1B: (m-1)(f+b) + p(f+b) where stages are equal (Narayanan et al. 2021, section 2.2); where not, the
//   longest path that stays on one rank q between fill and drain: from its first forward to its last
//   backward; or only from its first backward, which waits for the first microbatch to go all the way down
//   and back; or only to its last forward, after which the last microbatch goes down and back.
//   Interleaved: the same paths, with the order of a rank's chunks: m(f+b) + (p-1)(f+b)/v where stages are
//   equal, f and b a rank's times (section 2.2.2). On its way down, a microbatch waits at each chunk for the
//   others of its group. Within 1% of the simulated time where stages are alike but for the first and the
//   last, exact but for few such pipelines. Where others differ too, ranks that have their longer chunks at
//   different times hold each other up, which no few paths tell: such a pipeline is walked (pipeline_walk.h),
//   in some tens of microseconds.
// Then the data-parallel sum of each rank, the tied embedding's, the scalars' and the update.
//
// The paths are those of the program, so the time is not above the simulated one, but for what of zeroing and
// reduction a slower rank hides.
Breakdown ClosedForm(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                     double ranks_per_core);

// The compute of a stage's forward or backward when the other ranks of its core idle.
double UnloadedForward(const StageCosts& costs, double ranks_per_core);
double UnloadedBackward(const StageCosts& costs, double ranks_per_core);

// What the pipeline takes at least, since cores are shared: the ranks' mean forward and backward time.
double SharedCoreSeconds(const PipelineCosts& costs, std::int64_t microbatches);

}  // namespace autocfg
