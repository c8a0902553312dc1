// A lower bound of the time of a pipeline, in closed form: the longest of a few paths through its program.
// The planner ranks all plans by it and times the best ones (program_timer.h). Pure, thread-safe.
#pragma once

#include <cstdint>

#include "search/cost/timing/pipeline_costs.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

// Seconds from the beginning of the first forward to the end of the last backward, at least, if all ranks
// begin at once. Requires at least one rank and as many stages on each. `ranks_per_core`: how many ranks
// share a core, 1 or more; each runs that many times as fast as measured.
//
// The closed forms that these generalize: sum f + (m-1) max f + sum b + (m-1) max b for GPipe (Huang et al.
// 2019); (m + p-1)(f + b) for 1F1B with equal stages (Narayanan et al. 2021, section 2.2); m(f+b) +
// (p-1)(f+b)/v for interleaved, f and b a rank's times (section 2.2.2). f and b have the receive before them
// in them (step_parts.h).
//   GPipe        a way down and a way back, and the slowest stage for all other microbatches.
//   1F1B         the paths that stay on one rank between fill and drain: from its first forward to its last
//                backward; or only from its first backward, which waits for the first microbatch to go all
//                the way down and back; or only to its last forward, after which the last microbatch goes
//                down and back.
//   interleaved  the same paths, with the order of a rank's chunks. On its way down, a microbatch waits at
//                each chunk for the others of its group.
double PipelineBound(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                     double ranks_per_core);

// Whether the bound may stand for the time. Exact for GPipe; otherwise within 2%, mostly exact, for plans of
// models. Not so where a rank has several stages and those between the first and the last differ: ranks that
// have their longer chunks at different times hold each other up, which no few paths tell.
bool PipelineBoundIsClose(const PipelineCosts& costs);

}  // namespace autocfg
