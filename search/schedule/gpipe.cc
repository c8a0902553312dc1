#include "search/schedule/gpipe.h"

namespace autocfg {

ComputeOrder GPipeOrder(int stage, int /*stages*/, int microbatches) {
  ComputeOrder order;
  for (ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
    for (int k = 0; k < microbatches; ++k) {
      order.push_back({.kind = kind, .lane = Lane::kCompute, .stage = stage, .microbatch = k});
    }
  }
  return order;
}

}  // namespace autocfg
