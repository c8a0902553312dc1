#include "search/schedule/one_f_one_b.h"

#include <algorithm>

namespace autocfg {

ComputeOrder OneFOneBOrder(int stage, int stages, int microbatches) {
  ComputeOrder order;
  const auto add = [&](ActionKind kind, int microbatch) {
    order.push_back({.kind = kind, .lane = Lane::kCompute, .stage = stage, .microbatch = microbatch});
  };
  const int ahead = std::min(microbatches, stages - 1 - stage);
  for (int k = 0; k < ahead; ++k) add(ActionKind::kForward, k);
  for (int k = ahead; k < microbatches; ++k) {
    add(ActionKind::kForward, k);
    add(ActionKind::kBackward, k - ahead);
  }
  for (int k = microbatches - ahead; k < microbatches; ++k) add(ActionKind::kBackward, k);
  return order;
}

}  // namespace autocfg
