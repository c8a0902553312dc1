#include "proto/convert/plan_convert.h"

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "search/text/plan_text.h"

namespace autocfg {

v1::ParallelPlan ToProto(const ParallelPlan& plan) {
  v1::ParallelPlan message;
  message.set_tp(plan.tp);
  message.set_pp(plan.pp);
  message.set_dp(plan.dp);
  message.set_micro_batch(plan.micro_batch);
  message.set_virtual_stages(plan.virtual_stages);
  message.set_schedule(std::string(Name(plan.schedule)));
  message.set_split(SplitText(plan));
  message.set_recompute(RecomputeText(plan));
  message.set_attention(std::string(Name(plan.attention)));
  message.set_sequence_parallel(plan.sequence_parallel);
  message.set_zero_stage(plan.zero_stage);
  message.set_tp_overlap(plan.tp_overlap);
  message.set_grad_overlap(plan.grad_overlap);
  message.set_param_overlap(plan.param_overlap);
  message.set_p2p_overlap(plan.p2p_overlap);
  message.set_scatter_gather(plan.scatter_gather);
  return message;
}

absl::StatusOr<ParallelPlan> FromProto(const v1::ParallelPlan& message) {
  ParallelPlan plan;
  struct Size {
    std::string_view name;
    std::int64_t value;
    std::int64_t& field;
  };
  for (const Size& size :
       {Size{"tp", message.tp(), plan.tp}, Size{"pp", message.pp(), plan.pp},
        Size{"dp", message.dp(), plan.dp}, Size{"micro_batch", message.micro_batch(), plan.micro_batch},
        Size{"virtual_stages", message.virtual_stages(), plan.virtual_stages}}) {
    if (size.value < 0 || size.value > std::numeric_limits<std::int32_t>::max()) {
      return absl::InvalidArgumentError(
          fmt::format("plan: {} is {}; it must be from 1 to 2147483647", size.name, size.value));
    }
    if (size.value != 0) size.field = size.value;
  }
  if (message.schedule().empty() && plan.virtual_stages > 1) plan.schedule = Schedule::kInterleaved;

  // The rest as the text form takes them; an empty or zero one is the default.
  const std::pair<std::string_view, std::string> options[] = {
      {"schedule", message.schedule()},
      {"split", message.split()},
      {"recompute", message.recompute()},
      {"attention", message.attention()},
      {"zero", fmt::format("{}", message.zero_stage())},
      {"tp_overlap", message.tp_overlap() == 0 ? "" : fmt::format("{}", message.tp_overlap())},
  };
  for (const auto& [name, value] : options) {
    if (value.empty()) continue;
    if (absl::Status status = SetPlanOption(plan, name, value); !status.ok()) return status;
  }
  plan.sequence_parallel = message.sequence_parallel();
  plan.grad_overlap = message.grad_overlap();
  plan.param_overlap = message.param_overlap();
  plan.p2p_overlap = message.p2p_overlap();
  plan.scatter_gather = message.scatter_gather();
  return plan;
}

}  // namespace autocfg
