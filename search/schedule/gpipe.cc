#include "search/schedule/generators.h"

namespace autocfg {

ComputeLoops GPipeOrder(std::int32_t stage, std::int32_t /*stages*/, std::int64_t microbatches) {
  return {{{{ActionKind::kForward, stage}}, microbatches}, {{{ActionKind::kBackward, stage}}, microbatches}};
}

}  // namespace autocfg
