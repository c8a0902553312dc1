#include "fmt/format.h"
#include "search/frameworks/maxtext/maxtext.h"
#include "search/plan/model_stages.h"

namespace autocfg {

ExportedFile WriteMaxTextPlan(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  ExportedFile file;
  file.text = fmt::format(
      "ici_tensor_parallelism: {}\n"
      "per_device_batch_size: {}\n"
      "gradient_accumulation_steps: {}\n"
      "remat_policy: {}\n",
      plan.tp, static_cast<double>(plan.micro_batch) / static_cast<double>(plan.tp),
      MicrobatchCount(run.workload, plan),
      plan.recompute == Recompute::kFull ? maxtext::kFullRecompute : maxtext::kNoRecompute);
  file.launch = {.program = "MaxText.train", .arguments = "{file}"};
  return file;
}

}  // namespace autocfg
