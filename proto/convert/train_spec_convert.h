// Builds the message of a training run. The one place that fills it in from a plan. Thread-safe.
#pragma once

#include "autocfg/v1/trainer.pb.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// Returns AdamW at a constant rate: the default of `autocfg train`, and the optimizer of every trial of a
// search.
v1::OptimizerSpec DefaultOptimizer();

// Returns a run of the plan with the default optimizer: model, workload, plan and the fingerprint of its
// program. Steps, seed, data and files are the caller's. Requires a plan that the engine runs, with a
// resolved split and a program of allowed size (search/schedule/program.h).
v1::TrainSpec MakeTrainSpec(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan);

}  // namespace autocfg
