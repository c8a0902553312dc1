#include "fmt/format.h"
#include "search/frameworks/gpt_neox/gpt_neox.h"
#include "search/plan/model_stages.h"

namespace autocfg {

ExportedFile WriteGptNeoxPlan(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  ExportedFile file;
  file.text = fmt::format(
      "{{\n"
      "  \"pipe_parallel_size\": {},\n"
      "  \"model_parallel_size\": {},\n"
      "  \"sequence_parallel\": {},\n"
      "  \"train_micro_batch_size_per_gpu\": {},\n"
      "  \"gradient_accumulation_steps\": {},\n"
      "  \"checkpoint_activations\": {},\n"
      "  \"zero_optimization\": {{\n"
      "    \"stage\": {}\n"
      "  }}\n"
      "}}\n",
      plan.pp, plan.tp, plan.sequence_parallel, plan.micro_batch, MicrobatchCount(run.workload, plan),
      plan.recompute == Recompute::kFull, plan.zero_stage);
  file.launch = {.program = "deepy.py", .arguments = "train.py {file}"};
  return file;
}

}  // namespace autocfg
