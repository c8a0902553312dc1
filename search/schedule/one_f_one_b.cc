#include <algorithm>

#include "search/schedule/generators.h"

namespace autocfg {

ComputeLoops OneFOneBOrder(std::int32_t stage, std::int32_t stages, std::int64_t microbatches) {
  const std::int64_t ahead = std::min<std::int64_t>(microbatches, stages - 1 - stage);
  const StageCompute forward{ActionKind::kForward, stage}, backward{ActionKind::kBackward, stage};
  return {{{forward}, ahead}, {{forward, backward}, 2 * (microbatches - ahead)}, {{backward}, ahead}};
}

}  // namespace autocfg
