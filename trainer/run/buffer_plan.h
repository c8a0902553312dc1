// Which buffers of the memory layout each microbatch uses on each stage of a rank. It follows from the order
// of the rank's program alone (docs/engine.md), so it is made once and holds for every step. Immutable,
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/schedule/program.h"
#include "trainer/model/rank_shape.h"

namespace autocfg {

struct BufferUse {
  std::size_t slot = 0;       // of the stage's activation slots: the lowest that was free at the forward
  std::int64_t output = -1;   // how many forwards of the rank have sent their output before; last stage: -1
  std::int64_t gradient = 0;  // how many backwards the rank has run before
};

class BufferPlan {
 public:
  // Throws std::logic_error where the program is not one of the rank: a microbatch runs twice or never on one
  // of its stages, or backward before forward.
  BufferPlan(const RankShape& shape, const RankProgram& program);

  const BufferUse& At(std::size_t chunk, std::int64_t microbatch) const {
    return uses_.at(chunk).at(static_cast<std::size_t>(microbatch));
  }

 private:
  std::vector<std::vector<BufferUse>> uses_;  // by chunk and microbatch
};

}  // namespace autocfg
