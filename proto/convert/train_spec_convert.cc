#include "proto/convert/train_spec_convert.h"

#include "proto/convert/model_convert.h"
#include "proto/convert/plan_convert.h"
#include "proto/convert/workload_convert.h"
#include "search/schedule/program.h"

namespace autocfg {

v1::OptimizerSpec DefaultOptimizer() {
  v1::OptimizerSpec optimizer;
  optimizer.set_lr(3e-4);
  optimizer.set_min_lr(0);
  optimizer.set_lr_schedule("constant");
  optimizer.set_warmup_steps(0);
  optimizer.set_weight_decay(0.1);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_adam_eps(1e-8);
  optimizer.set_clip_norm(1.0);
  return optimizer;
}

v1::TrainSpec MakeTrainSpec(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan) {
  v1::TrainSpec spec;
  *spec.mutable_model() = ToProto(model);
  *spec.mutable_workload() = ToProto(workload);
  *spec.mutable_plan() = ToProto(plan);
  spec.set_program_fingerprint(Fingerprint(Lower(model, workload, plan)));
  *spec.mutable_optimizer() = DefaultOptimizer();
  return spec;
}

}  // namespace autocfg
