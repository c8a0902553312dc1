// A shape of layers, and others like it.
#pragma once

#include <cstdint>

#include "search/plan/cluster/calibration.h"

namespace autocfg::test {

inline constexpr BlockShape kShape{.hidden = 1024, .seq_len = 2048, .micro_batch = 2, .tp = 4};

inline BlockShape WithMicroBatch(std::int64_t micro_batch) {
  BlockShape shape = kShape;
  shape.micro_batch = micro_batch;
  return shape;
}
inline BlockShape WithTp(std::int64_t tp) {
  BlockShape shape = kShape;
  shape.tp = tp;
  return shape;
}

}  // namespace autocfg::test
