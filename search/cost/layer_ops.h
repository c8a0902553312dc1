// Lists the ops that each action of a program issues on one rank, in order, from model, workload and plan.
// The trainer issues exactly these ops (a test records them on the dry device). docs/engine.md is the common
// specification; it also defines the ops of options that can only be predicted. Pure functions, thread-safe.
//
// The lists are for tensor and data coordinate 0. The other ranks at a pipeline coordinate issue the same
// ops, except for those of rank_ops.h that depend on the coordinates. Requires a legal plan that
// CheckPredictable accepts, with a resolved split.
#pragma once

#include <cstdint>
#include <vector>

#include "search/ops/op_desc.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"
#include "search/schedule/action.h"

namespace autocfg {

// Ops of one transformer layer on one microbatch. LayerRecomputeOps lists what the backward of a recomputing
// layer runs first: under recompute=selective only the attention. It is empty if the plan recomputes nothing.
// `accumulate`: gradients of parameters are added to those of earlier microbatches; the first one writes
// them.
//
// Under zero=3 LayerForwardOps begins with the gather of the layer's parameters; LayerGatherOps, empty
// otherwise, precedes its backward and what that recomputes. Under zero=2 and 3 LayerBackwardOps ends with
// the reduction of the layer's gradients.
std::vector<OpDesc> LayerGatherOps(const ModelSpec& model, const Workload& workload,
                                   const ParallelPlan& plan);
std::vector<OpDesc> LayerForwardOps(const ModelSpec& model, const Workload& workload,
                                    const ParallelPlan& plan);
std::vector<OpDesc> LayerRecomputeOps(const ModelSpec& model, const Workload& workload,
                                      const ParallelPlan& plan);
std::vector<OpDesc> LayerBackwardOps(const ModelSpec& model, const Workload& workload,
                                     const ParallelPlan& plan, bool accumulate);

// Ops of the two parts of a layer's backward, if the plan's schedule splits it: the gradient of the layer's
// input, then, in another action, those of its weights and biases.
std::vector<OpDesc> LayerInputGradientOps(const ModelSpec& model, const Workload& workload,
                                          const ParallelPlan& plan, bool accumulate);
std::vector<OpDesc> LayerWeightGradientOps(const ModelSpec& model, const Workload& workload,
                                           const ParallelPlan& plan, bool accumulate);

// Returns how many of a stage's `layers` layers issue LayerRecomputeOps; these are the first ones.
std::int64_t LayersWithRecomputeOps(const ParallelPlan& plan, std::int64_t layers);

// Ops that a stage issues first when a message from another stage has arrived: in the forward of all stages
// but the first, in the backward of all but the last. Empty unless messages are scattered.
std::vector<OpDesc> ArrivalOps(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan);

// Ops that the first and the last stage issue in addition to their layers.
std::vector<OpDesc> EmbeddingForwardOps(const ModelSpec& model, const Workload& workload,
                                        const ParallelPlan& plan);
std::vector<OpDesc> EmbeddingBackwardOps(const ModelSpec& model, const Workload& workload,
                                         const ParallelPlan& plan, bool accumulate);
std::vector<OpDesc> HeadForwardOps(const ModelSpec& model, const Workload& workload,
                                   const ParallelPlan& plan);
std::vector<OpDesc> HeadBackwardOps(const ModelSpec& model, const Workload& workload,
                                    const ParallelPlan& plan, bool accumulate);

// Returns the ops of one action of a rank's program: the lists above combined, its message, or its RankOps. A
// forward, backward or part of a backward needs the action's stage; a backward or part of microbatch 0 writes
// the gradients (WritesGradients). Throws std::logic_error if the stage is missing or belongs to another
// rank. Actions of the whole rank have stage -1.
std::vector<OpDesc> ActionOps(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                              std::int64_t pipeline_rank, const Action& action);

}  // namespace autocfg
