#include "cli/train_job.h"

#include <cstdint>

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

v1::OptimizerSpec DefaultOptimizer() {
  v1::OptimizerSpec optimizer;
  optimizer.set_lr(3e-4);
  optimizer.set_lr_schedule("constant");
  optimizer.set_weight_decay(0.1);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_adam_eps(1e-8);
  optimizer.set_clip_norm(1.0);
  return optimizer;
}

}  // namespace autocfg
