#include "fmt/format.h"
#include "search/frameworks/nanotron/nanotron.h"
#include "search/plan/model_stages.h"

namespace autocfg {

ExportedFile WriteNanotronPlan(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  ExportedFile file;
  file.text = fmt::format(
      "optimizer:\n"
      "  zero_stage: {}\n"
      "parallelism:\n"
      "  dp: {}\n"
      "  pp: {}\n"
      "  pp_engine: {}\n"
      "  recompute_layer: {}\n"
      "  tp: {}\n"
      "  tp_mode: {}\n"
      "tokens:\n"
      "  batch_accumulation_per_replica: {}\n"
      "  micro_batch_size: {}\n",
      plan.zero_stage, plan.dp, plan.pp, plan.schedule == Schedule::kGPipe ? "afab" : "1f1b",
      plan.recompute == Recompute::kFull, plan.tp,
      plan.sequence_parallel ? nanotron::kSplitsSequence : nanotron::kSumsOnly,
      MicrobatchCount(run.workload, plan), plan.micro_batch);
  file.launch = {.program = "run_train.py", .arguments = "--config-file {file}"};
  return file;
}

}  // namespace autocfg
