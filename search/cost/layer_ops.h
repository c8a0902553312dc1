// The ops that each action of a program issues on one rank, in order, made from model, workload and plan
// alone. The trainer issues exactly these (a test records them on the dry device); docs/engine.md is the
// common specification. Pure functions, thread-safe.
//
// All tensor and data coordinates of a stage issue the same list. Requires a legal, resolved plan that the
// engine supports.
#pragma once

#include <cstdint>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/schedule/action.h"

namespace autocfg {

// One transformer layer on one microbatch.
std::vector<OpDesc> LayerForwardOps(const ModelSpec& model, const Workload& workload,
                                    const ParallelPlan& plan);
std::vector<OpDesc> LayerRecomputeOps(const ModelSpec& model, const Workload& workload,
                                      const ParallelPlan& plan);
std::vector<OpDesc> LayerBackwardOps(const ModelSpec& model, const Workload& workload,
                                     const ParallelPlan& plan);

// What the first and the last stage do beside their layers.
std::vector<OpDesc> EmbeddingForwardOps(const ModelSpec& model, const Workload& workload,
                                        const ParallelPlan& plan);
std::vector<OpDesc> EmbeddingBackwardOps(const ModelSpec& model, const Workload& workload,
                                         const ParallelPlan& plan);
std::vector<OpDesc> HeadForwardOps(const ModelSpec& model, const Workload& workload,
                                   const ParallelPlan& plan);
std::vector<OpDesc> HeadBackwardOps(const ModelSpec& model, const Workload& workload,
                                    const ParallelPlan& plan);

// One op of `kind` for each parameter of a stage, in parameter order: kAdamW, or kSumOfSquares (without the
// last stage's copy of the tied table).
std::vector<OpDesc> ParameterOps(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                                 std::int64_t pipeline_rank, OpKind kind);

// One action of a rank's program: the above put together, or its communication, reductions and updates.
std::vector<OpDesc> ActionOps(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                              std::int64_t pipeline_rank, const Action& action);

}  // namespace autocfg
