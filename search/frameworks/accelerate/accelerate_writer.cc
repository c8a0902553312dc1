#include "fmt/format.h"
#include "search/frameworks/accelerate/accelerate.h"

namespace autocfg {

ExportedFile WriteAcceleratePlan(const ExportedRun& run) {
  const ParallelPlan& plan = run.plan;
  const bool hybrid = StateReplicas(plan) > 1 && plan.zero_stage > 0;
  const std::string_view strategy = plan.zero_stage < 2    ? "NO_SHARD"
                                    : plan.zero_stage == 2 ? (hybrid ? "HYBRID_SHARD_ZERO2" : "SHARD_GRAD_OP")
                                                           : (hybrid ? "HYBRID_SHARD" : "FULL_SHARD");
  ExportedFile file;
  file.text = fmt::format(
      "fsdp_config:\n"
      "  fsdp_activation_checkpointing: {}\n"
      "  fsdp_sharding_strategy: {}\n",
      plan.recompute == Recompute::kFull, strategy);
  file.launch = {.program = "train.py", .arguments = ""};
  return file;
}

}  // namespace autocfg
