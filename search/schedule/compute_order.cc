#include "search/schedule/compute_order.h"

#include <algorithm>
#include <stdexcept>

#include "search/schedule/gpipe.h"
#include "search/schedule/interleaved.h"
#include "search/schedule/one_f_one_b.h"

namespace autocfg {

ComputeOrder MakeComputeOrder(const ParallelPlan& plan, int pipeline_rank, int microbatches) {
  const int ranks = static_cast<int>(plan.pp);
  if (plan.schedule == Schedule::kInterleaved) {
    if (plan.pp < 2 || plan.virtual_stages < 2 || microbatches % plan.pp != 0) {
      throw std::logic_error(
          "interleaved wants several ranks, several stages each, and a multiple of pp microbatches");
    }
    return InterleavedOrder(pipeline_rank, ranks, static_cast<int>(plan.virtual_stages), microbatches);
  }
  if (plan.virtual_stages != 1) throw std::logic_error("several stages on a rank without interleaved");
  switch (plan.schedule) {
    case Schedule::kGPipe: return GPipeOrder(pipeline_rank, ranks, microbatches);
    case Schedule::kOneFOneB: return OneFOneBOrder(pipeline_rank, ranks, microbatches);
    case Schedule::kInterleaved:
    case Schedule::kZeroBubbleH1: break;
  }
  throw std::logic_error("a schedule without a generator: CheckPredictable was not asked");
}

int MaxInFlight(const ComputeOrder& order, int stage) {
  int now = 0;
  int most = 0;
  for (const Action& action : order) {
    if (action.stage != stage) continue;
    if (action.kind == ActionKind::kForward) most = std::max(most, ++now);
    if (action.kind == ActionKind::kBackward) --now;
  }
  return most;
}

}  // namespace autocfg
