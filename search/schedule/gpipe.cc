#include "search/schedule/gpipe.h"

namespace autocfg {

StageOrder GPipeOrder(int stage, int /*stages*/, int microbatches) {
  StageOrder order;
  for (ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
    for (int k = 0; k < microbatches; ++k) {
      order.push_back({.kind = kind, .lane = Lane::kCompute, .stage = stage, .microbatch = k});
    }
  }
  return order;
}

}  // namespace autocfg
