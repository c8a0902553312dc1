// Converts a training run to the launcher's job. Shared by all verbs that start ranks themselves. Pure,
// thread-safe.
#pragma once

#include "autocfg/v1/worker_service.pb.h"
#include "search/plan/engine_device.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg::cli {

// Sets the number of ranks, the model, the workload, the plan and its program's fingerprint. Requires a plan
// that the engine runs, with a resolved split and a program of allowed size.
v1::Job MakeTrainJob(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                     EngineDevice device);

}  // namespace autocfg::cli
