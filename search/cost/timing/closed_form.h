// A lower bound of the time of a pipeline, in closed form: the longest of a few paths through its program.
// The planner ranks all plans by it and times the best ones (program_timer.h). Pure, thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "search/cost/timing/pipeline_costs.h"
#include "search/plan/parallel_plan.h"

namespace autocfg {

struct PipelineEnd {
  double seconds = 0;
  // By rank: how long it ends before the pipeline does. For GPipe at most, as if its messages never waited
  // for a slower rank; for 1F1B and interleaved the last backwards of the ranks before it; for ZB-H1 by lower
  // bounds of the ends of their last weight gradients.
  std::vector<double> lead_s;
};

// Returns a lower bound of the seconds from the begin of the first forward to the end of the last backward,
// if all ranks begin at once. Requires at least one rank and the same number of stages on each.
// `ranks_per_core`: how many ranks share a core, 1 or more; each runs that many times as fast as measured.
//
// The closed forms that these generalize, with f and b a rank's forward and backward time including the
// receive before each (stage_times.h), m microbatches, p ranks and v stages on each. Messages that overlap
// count where a path passes from one rank to the next, not where it stays on a rank.
//
// - GPipe: sum f + (m-1) max f + sum b + (m-1) max b (Huang et al. 2019);
// - 1F1B: (m + p-1)(f + b) with equal stages (Narayanan et al. 2021, section 2.2.1);
// - interleaved: m (f + b) + (p-1)(f + b)/v (section 2.2.2);
// - ZB-H1: m (f + b + w) + (p-1)(f + b - w) with equal stages, f >= w, b >= w and m >= p, where b is the time
//   of an input gradient and w that of a weight gradient (Qi et al. 2023, section 2).
//
// Unlike there, the backwards of the first microbatch may take another time than the others.
//
// The paths:
//
// - GPipe: one way down and one way back, and the slowest stage for all other microbatches.
// - 1F1B: the paths that stay on one rank between fill and drain. They begin at its first forward, or at its
//   first backward, which waits until the first microbatch went all the way down and back. They end at its
//   last backward, or at its last forward, after which the last microbatch goes down and back. Where messages
//   overlap, also the ways of every p-th microbatch down and back, one after the other.
// - interleaved: the same paths, in the order of a rank's chunks. On its way down, a microbatch waits at each
//   chunk for the others of its group.
// - ZB-H1: the paths of 1F1B. They end at the last weight gradient of a rank that they pass.
PipelineEnd PipelineBound(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                          double ranks_per_core);

// Microbatches for each rank from which on the bound of ZB-H1 is close: what the fill and the drain take that
// the paths do not show no longer matters.
inline constexpr std::int64_t kMicrobatchesOfCloseZeroBubble = 64;

// Returns true if the bound may replace the timer. The pipeline of GPipe is exact (where messages overlap,
// within 2%); those of plans of models under 1F1B and interleaving are within 2%, mostly exact. Where their
// messages overlap, the time lies between this bound and that without overlap: true if the two are within 2%.
// False if ranks have several stages and those between the first and the last differ: ranks that run their
// longer chunks at different times delay each other, which a few paths do not show. Under ZB-H1 the longest
// path may change ranks as often as it likes, so that it is false but for many microbatches, without overlap;
// then the bound is within 1%, and exact with equal stages.
bool PipelineBoundIsClose(const PipelineCosts& costs, Schedule schedule, std::int64_t microbatches,
                          double ranks_per_core);

}  // namespace autocfg
