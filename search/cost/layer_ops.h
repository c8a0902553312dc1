// The ops that each action of a program issues on one rank, in order, made from model, workload and plan
// alone. The trainer issues exactly these (a test records them on the dry device); docs/engine.md is the
// common specification, and also says what the options that are predicted only would issue. Pure functions,
// thread-safe.
//
// The lists are those of tensor and data coordinate 0; the other ranks of a pipeline coordinate issue the
// same but for sums of squares. Requires a legal plan that CheckPredictable takes, with a resolved split.
#pragma once

#include <cstdint>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/schedule/action.h"

namespace autocfg {

// One transformer layer on one microbatch. LayerRecomputeOps: what the backward of a layer that recomputes
// runs first (under recompute=selective only the attention; empty where the plan recomputes nothing).
std::vector<OpDesc> LayerForwardOps(const ModelSpec& model, const Workload& workload,
                                    const ParallelPlan& plan);
std::vector<OpDesc> LayerRecomputeOps(const ModelSpec& model, const Workload& workload,
                                      const ParallelPlan& plan);
std::vector<OpDesc> LayerBackwardOps(const ModelSpec& model, const Workload& workload,
                                     const ParallelPlan& plan);

// How many of the `layers` layers of a stage issue LayerRecomputeOps: the first ones.
std::int64_t RecomputingLayers(const ParallelPlan& plan, std::int64_t layers);

// What the first and the last stage do beside their layers.
std::vector<OpDesc> EmbeddingForwardOps(const ModelSpec& model, const Workload& workload,
                                        const ParallelPlan& plan);
std::vector<OpDesc> EmbeddingBackwardOps(const ModelSpec& model, const Workload& workload,
                                         const ParallelPlan& plan);
std::vector<OpDesc> HeadForwardOps(const ModelSpec& model, const Workload& workload,
                                   const ParallelPlan& plan);
std::vector<OpDesc> HeadBackwardOps(const ModelSpec& model, const Workload& workload,
                                    const ParallelPlan& plan);

// The one op over all parameters of a pipeline rank, all its stages: kAdamW, or kSumOfSquares (without the
// last rank's copy of a tied table; on a tensor coordinate other than 0, without those that the whole group
// holds).
OpDesc ParameterOp(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                   std::int64_t pipeline_rank, OpKind kind, std::int64_t tensor_coordinate = 0);

// One action of a rank's program: the above put together, or its communication, reductions and updates. A
// forward or backward is that of the stage that the action names (throws std::logic_error where it names
// none, or another rank's); those of the whole rank leave it at -1.
std::vector<OpDesc> ActionOps(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                              std::int64_t pipeline_rank, const Action& action);

}  // namespace autocfg
