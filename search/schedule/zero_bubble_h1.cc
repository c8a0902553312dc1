#include <algorithm>

#include "search/schedule/generators.h"

namespace autocfg {

// The k-th input gradient follows the forward of microbatch k + ahead, and precedes the weight gradient of
// microbatch k - stage, where there are such microbatches.
ComputeLoops ZeroBubbleH1Order(std::int32_t stage, std::int32_t stages, std::int64_t microbatches) {
  const std::int64_t ahead = std::min<std::int64_t>(microbatches, stages - 1 - stage);
  const std::int64_t delay = std::min<std::int64_t>(microbatches, stage);
  const std::int64_t after_forwards = microbatches - ahead;  // input gradients that follow a forward
  const std::int64_t both = std::max<std::int64_t>(0, after_forwards - delay);
  const std::int64_t neither = std::max<std::int64_t>(0, delay - after_forwards);
  const StageCompute f{ActionKind::kForward, stage}, i{ActionKind::kInputGradient, stage},
      w{ActionKind::kWeightGradient, stage};
  return {{{f}, ahead},
          {{f, i}, 2 * std::min(after_forwards, delay)},
          {{f, i, w}, 3 * both},
          {{i}, neither},
          {{i, w}, 2 * (ahead - neither)},
          {{w}, delay}};
}

}  // namespace autocfg
