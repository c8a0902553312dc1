#include "cli/train/train_job.h"

#include <cstdint>

#include "proto/convert/trainer_convert.h"

namespace autocfg::cli {

v1::Job MakeTrainJob(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                     const std::string& device) {
  v1::Job job;
  job.set_ranks(static_cast<std::int32_t>(RankCount(plan)));
  job.set_device(device);
  *job.mutable_train() = MakeTrainSpec(model, workload, plan);
  return job;
}

}  // namespace autocfg::cli
