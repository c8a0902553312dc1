// A training run as the job that the launcher takes: what every verb that starts ranks by itself shares.
// Pure, thread-safe.
#pragma once

#include <string>

#include "autocfg/v1/worker_service.pb.h"
#include "search/plan/model_spec.h"
#include "search/plan/parallel_plan.h"
#include "search/plan/workload.h"

namespace autocfg {

// The ranks of the plan, model, workload, plan and the fingerprint of its program. Requires a plan that the
// engine runs, with a resolved split and a program of allowed size.
v1::Job MakeTrainJob(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                     const std::string& device);

}  // namespace autocfg
