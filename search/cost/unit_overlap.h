// The order in which computes issue the collectives of their units and wait for them (docs/engine.md,
// "Units"), on the lanes of timing/lanes.h. Plain values; pure functions, thread-safe.
#pragma once

#include <vector>

#include "search/cost/timing/lanes.h"

namespace autocfg {

// The ops of an action that use one unit, as in unit_ops.h; or none, when a message arrives.
struct UnitSeconds {
  double gather_s = 0;  // 0: it is not gathered
  double compute_s = 0;
  double reduce_s = 0;      // 0: it is not reduced
  double add_s = 0;         // of the reduced gradient to those of earlier microbatches
  bool own_buffer = false;  // of its gradient: a tied table
};

struct UnitOverlap {
  bool gathers = false;  // one unit ahead
  bool reduces = false;  // until a buffer of two is needed again
  double contention = 0;
};

// Returns the seconds of an action of these blocks, whose units pass through two buffers in turn, but for
// those with their own. Block i + 2 writes its gradient once that of block i is reduced and added. Without
// overlap, the sum. Requires blocks of units with consecutive numbers, as in every forward and backward:
// unit_ops.h chooses the buffer by the number.
OverlapTime TimeOfStream(const std::vector<UnitSeconds>& blocks, UnitOverlap overlap);

// Returns by how many seconds the last of the blocks' reductions ends later than their computes alone would.
// Each runs once its block is computed. `earlier_s`: of reductions that come before all of them.
OverlapTime TimeAfterComputes(double earlier_s, const std::vector<UnitSeconds>& blocks,
                              double contention = 0);

// A unit that is gathered from the start of a step on.
struct GatheredUnit {
  double gather_s = 0;
  double needed_s = 0;  // how long after the start of the first forward it is read
};

// Returns what the gathers, in this order, add to the forwards: those wait for each unit before they read it.
OverlapTime TimeOfGathers(const std::vector<GatheredUnit>& units, double contention = 0);

}  // namespace autocfg
