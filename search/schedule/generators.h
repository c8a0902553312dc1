// The generators of compute orders, one for each schedule, and what is known about their orders in closed
// form. compute_order.h chooses among them. Pure, thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "search/plan/parallel_plan.h"
#include "search/schedule/compute_order.h"

namespace autocfg {

// GPipe (Huang et al. 2019): all forwards, then all backwards. Every microbatch is in flight at once.
// Requires 0 <= stage < stages and microbatches > 0.
ComputeLoops GPipeOrder(std::int32_t stage, std::int32_t stages, std::int64_t microbatches);

// 1F1B, also called PipeDream-Flush (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on
// GPU Clusters", section 2.2.1). A stage runs as many forwards ahead as there are stages after it, then one
// forward and one backward in turn, then the remaining backwards. At most `stages - stage` microbatches are
// in flight. Requires 0 <= stage < stages and microbatches > 0.
ComputeLoops OneFOneBOrder(std::int32_t stage, std::int32_t stages, std::int64_t microbatches);

// ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2). Forwards and input gradients follow
// in the order of 1F1B's forwards and backwards. The weight gradient of a microbatch comes `stage`
// microbatches later than its input gradient: the later a stage begins, the more of them it keeps for the
// idle time at its end. So every stage has up to `stages` microbatches in flight, as many as the first stage
// has under 1F1B. If forwards, input gradients and weight gradients take the same time T and microbatches are
// at least `stages`, each stage is idle for (stages - 1) T of a step; under 1F1B, for 3 (stages - 1) T.
// Requires what OneFOneBOrder does.
ComputeLoops ZeroBubbleH1Order(std::int32_t stage, std::int32_t stages, std::int64_t microbatches);

// Interleaved 1F1B (Narayanan et al. 2021, section 2.2.2). A rank owns several stages ("chunks"). It takes
// microbatches in groups of as many as there are ranks: the group's forwards of chunk 0, then those of chunk
// 1, and so on; backwards likewise from the last chunk. Forwards run ahead of backwards as in 1F1B. The
// actions' stages are those of the model: chunk * ranks + rank. Requires 0 <= rank < ranks, chunks > 0, and
// microbatches that are a positive multiple of `ranks`.
ComputeLoops InterleavedOrder(std::int32_t rank, std::int32_t ranks, std::int32_t chunks,
                              std::int64_t microbatches);

// Returns the number of forwards, over all chunks, that a rank of InterleavedOrder runs before it alternates:
// one way down the rest of the pipeline and back (2 (ranks - 1 - rank)), and all chunks but the last of the
// first group. Requires 0 <= rank < ranks.
constexpr std::int64_t InterleavedWarmUp(std::int64_t rank, std::int64_t ranks, std::int64_t chunks,
                                         std::int64_t microbatches) {
  return std::min(chunks * microbatches, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks);
}

// Returns how many of the first `n` forwards of a rank of InterleavedOrder are of `chunk`. Of its first n
// backwards, as many are of the mirrored chunk, chunks - 1 - chunk.
constexpr std::int64_t InterleavedComputes(std::int64_t n, std::int64_t ranks, std::int64_t chunks,
                                           std::int64_t chunk) {
  const std::int64_t round = ranks * chunks;
  return n / round * ranks + std::clamp<std::int64_t>(n % round - chunk * ranks, 0, ranks);
}

// InFlight of the interleaved schedule. `early`: by how many computes a slot is taken before its forward.
std::int64_t InterleavedInFlight(const ParallelPlan& plan, std::int64_t microbatches, std::int64_t stage,
                                 std::int64_t early);

// Returns the largest number of microbatches in flight on a stage of the model at any time: the activation
// slots that the stage needs. Equals ActivationSlots (program.h) of the plan's program, in closed form; where
// messages do not overlap also MaxInFlight of MakeComputeOrder's order. Requires what MakeComputeOrder does,
// and 0 <= stage < StageCount(plan).
//
// Where messages overlap, a stage that receives activations takes a slot one compute before the forward. Past
// the warm-up that compute is the backward, or the weight gradients, that frees a slot in time otherwise.
inline std::int64_t InFlight(const ParallelPlan& plan, std::int64_t microbatches, std::int64_t stage) {
  const std::int64_t early = OverlapsMessages(plan) && stage > 0 ? 1 : 0;
  switch (plan.schedule) {
    case Schedule::kGPipe: return microbatches;
    case Schedule::kOneFOneB: return std::min(microbatches, plan.pp - stage + early);
    case Schedule::kInterleaved: return InterleavedInFlight(plan, microbatches, stage, early);
    case Schedule::kZeroBubbleH1: return std::min(microbatches, plan.pp + early);
  }
  throw std::logic_error("a schedule without a generator");
}

// Returns how many microbatches are in flight on a stage while its rank has most in flight on all of its
// stages together: at the end of the warm-up, from which on a backward follows each forward. Only with
// several stages on a rank is that less than InFlight. Requires what InFlight does.
std::int64_t InFlightTogether(const ParallelPlan& plan, std::int64_t microbatches, std::int64_t stage);

}  // namespace autocfg
