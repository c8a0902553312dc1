#include "fmt/format.h"
#include "search/plan/model_stages.h"
#include "search/schedule/program.h"

namespace autocfg {

absl::Status CheckProgramSize(const Workload& workload, const ParallelPlan& plan) {
  const std::int64_t microbatches = MicrobatchCount(workload, plan);
  const std::int64_t ranks = RankCount(plan);
  if (microbatches <= kMaxProgramMicrobatches / ranks / plan.virtual_stages) return absl::OkStatus();
  const std::string stages =
      plan.virtual_stages > 1 ? fmt::format(" x {} virtual stages", plan.virtual_stages) : "";
  return absl::InvalidArgumentError(
      fmt::format("global_batch {} makes {} microbatches on each of {} ranks{}, but a program has at most {} "
                  "in all; use a smaller global batch or a larger mbs",
                  workload.global_batch, microbatches, ranks, stages, kMaxProgramMicrobatches));
}

}  // namespace autocfg
