// The buffers of the memory layout that each microbatch uses on each stage of a rank. They depend only on the
// order of the rank's program (docs/engine.md), so the plan is made once and applies to every step.
// Immutable, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/schedule/program.h"
#include "trainer/layout/rank_shape.h"

namespace autocfg::trainer {

struct BufferUse {
  // activation slot of the stage: the lowest slot free at the receive, or at the forward if nothing arrives
  std::size_t slot = 0;
  std::int64_t output = -1;   // number of the rank's earlier forwards that sent their output; last stage: -1
  std::int64_t gradient = 0;  // number of the rank's earlier backwards, or input gradients
};

class BufferPlan {
 public:
  // Throws std::logic_error if the program is invalid for the rank: a microbatch runs twice or never on one
  // of the rank's stages, or its backward precedes its forward.
  BufferPlan(const RankShape& shape, const RankProgram& program);

  const BufferUse& At(std::size_t chunk, std::int64_t microbatch) const {
    return uses_.at(chunk).at(static_cast<std::size_t>(microbatch));
  }

 private:
  std::vector<std::vector<BufferUse>> uses_;  // by chunk and microbatch
};

}  // namespace autocfg::trainer
