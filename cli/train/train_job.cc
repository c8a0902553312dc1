#include "cli/train/train_job.h"

#include <cstdint>
#include <string>

#include "proto/convert/train_spec_convert.h"

namespace autocfg::cli {

v1::Job MakeTrainJob(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan,
                     EngineDevice device) {
  v1::Job job;
  job.set_ranks(static_cast<std::int32_t>(RankCount(plan)));
  job.set_device(std::string(Name(device)));
  *job.mutable_train() = MakeTrainSpec(model, workload, plan);
  return job;
}

}  // namespace autocfg::cli
