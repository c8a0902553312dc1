#include "cli/train_job.h"

#include <cstdint>

#include "proto/convert/default_optimizer.h"
#include "proto/convert/model_convert.h"
#include "proto/convert/plan_convert.h"
#include "proto/convert/workload_convert.h"
#include "search/schedule/program.h"

namespace autocfg {

v1::Job MakeTrainJob(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                     const std::string& device) {
  v1::Job job;
  job.set_ranks(static_cast<std::int32_t>(RankCount(plan)));
  job.set_device(device);
  v1::TrainSpec& spec = *job.mutable_train();
  *spec.mutable_model() = ToProto(model);
  *spec.mutable_workload() = ToProto(workload);
  *spec.mutable_plan() = ToProto(plan);
  spec.set_program_fingerprint(Fingerprint(Lower(model, workload, plan)));
  *spec.mutable_optimizer() = DefaultOptimizer();
  return job;
}

}  // namespace autocfg
