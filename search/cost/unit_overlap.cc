#include "search/cost/unit_overlap.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace autocfg {

double StreamedSeconds(const std::vector<UnitSeconds>& blocks, UnitOverlap overlap) {
  struct Reduction {
    double end_s = 0;
    double add_s = 0;
  };
  double now_s = 0;   // end of the computes
  double lane_s = 0;  // end of the collectives
  std::size_t next = 0;
  const auto gather = [&] {
    while (next < blocks.size() && blocks[next].gather_s == 0) ++next;
    if (next < blocks.size()) lane_s = std::max(now_s, lane_s) + blocks[next++].gather_s;
    return lane_s;
  };
  double gathered_s = overlap.gathers ? gather() : 0;
  std::array<std::optional<Reduction>, 2> pending;  // by buffer
  const auto finish = [&](std::size_t block) {
    std::optional<Reduction>& reduction = pending[block % 2];
    if (reduction) now_s = std::max(now_s, reduction->end_s) + reduction->add_s;
    reduction.reset();
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const UnitSeconds& block = blocks[i];
    if (block.gather_s > 0) {
      if (!overlap.gathers) gathered_s = gather();
      now_s = std::max(now_s, gathered_s);
      if (overlap.gathers) gathered_s = gather();
    }
    if (block.reduce_s > 0) finish(i);
    now_s += block.compute_s;
    if (block.reduce_s == 0) continue;
    lane_s = std::max(now_s, lane_s) + block.reduce_s;
    pending[i % 2] = {lane_s, block.add_s};
    if (!overlap.reduces) finish(i);
  }
  finish(blocks.size());  // the earlier one of two in a row
  finish(blocks.size() + 1);
  return now_s;
}

double ReductionsAfter(double earlier_s, const std::vector<UnitSeconds>& blocks) {
  double computed_s = 0, reduced_s = earlier_s;
  for (const UnitSeconds& block : blocks) {
    computed_s += block.compute_s;
    if (block.reduce_s > 0) reduced_s = std::max(reduced_s, computed_s) + block.reduce_s;
  }
  return std::max(0.0, reduced_s - computed_s);
}

double WaitForGathers(const std::vector<GatheredUnit>& units) {
  double gathered_s = 0, wait_s = 0;
  for (const GatheredUnit& unit : units) {
    gathered_s += unit.gather_s;
    wait_s = std::max(wait_s, gathered_s - unit.needed_s);
  }
  return wait_s;
}

}  // namespace autocfg
