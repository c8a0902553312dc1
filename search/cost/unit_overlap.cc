#include "search/cost/unit_overlap.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace autocfg {

double SecondsBeside(double compute_s, double hidden_s, double contention) {
  const double lost_s = contention * std::max(0.0, hidden_s);
  // Either the collectives end first, or the compute runs beside them to its end.
  return compute_s + lost_s >= hidden_s ? compute_s + lost_s : compute_s / (1 - contention);
}

OverlapTime TimeOfStream(const std::vector<UnitSeconds>& blocks, UnitOverlap overlap) {
  double now_s = 0;   // end of the computes
  double lane_s = 0;  // end of the collectives
  double waited_s = 0;
  const auto wait_until = [&](double end_s) {
    waited_s += std::max(0.0, end_s - now_s);
    now_s = std::max(now_s, end_s);
  };
  std::size_t next = 0;
  const auto gather = [&] {
    while (next < blocks.size() && blocks[next].gather_s == 0) ++next;
    if (next < blocks.size()) lane_s = std::max(now_s, lane_s) + blocks[next++].gather_s;
    return lane_s;
  };
  double gathered_s = overlap.gathers ? gather() : 0;
  constexpr std::size_t kOwnBuffer = 2, kBuffers = 3;
  const auto buffer_of = [&](std::size_t block) { return blocks[block].own_buffer ? kOwnBuffer : block % 2; };
  struct Reduction {
    std::size_t buffer;
    double end_s, add_s;
  };
  // In the order in which they were issued; at most one of each buffer, which is finished before the next.
  std::array<Reduction, kBuffers> pending{};
  std::size_t pending_count = 0;
  const auto complete = [&](const Reduction& reduction) {
    wait_until(reduction.end_s);
    now_s += reduction.add_s;
  };
  const auto finish = [&](std::size_t buffer) {
    std::size_t left = 0;
    for (std::size_t i = 0; i < pending_count; ++i) {
      if (pending[i].buffer == buffer) {
        complete(pending[i]);
      } else {
        pending[left++] = pending[i];
      }
    }
    pending_count = left;
  };
  const auto finish_all = [&] {
    for (std::size_t i = 0; i < pending_count; ++i) complete(pending[i]);
    pending_count = 0;
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const UnitSeconds& block = blocks[i];
    if (block.gather_s > 0) {
      if (!overlap.gathers) gathered_s = gather();
      wait_until(gathered_s);
      if (overlap.gathers) gathered_s = gather();
    }
    if (block.reduce_s > 0) finish(buffer_of(i));
    now_s += SecondsBeside(block.compute_s, lane_s - now_s, overlap.contention);
    if (block.reduce_s == 0) continue;
    lane_s = std::max(now_s, lane_s) + block.reduce_s;
    pending[pending_count++] = {buffer_of(i), lane_s, block.add_s};
    if (!overlap.reduces) finish_all();
  }
  finish_all();
  return {now_s, waited_s};
}

OverlapTime TimeAfterComputes(double earlier_s, const std::vector<UnitSeconds>& blocks, double contention) {
  double alone_s = 0, computed_s = 0, reduced_s = earlier_s;
  for (const UnitSeconds& block : blocks) {
    alone_s += block.compute_s;
    computed_s += SecondsBeside(block.compute_s, reduced_s - computed_s, contention);
    if (block.reduce_s > 0) reduced_s = std::max(reduced_s, computed_s) + block.reduce_s;
  }
  return {std::max(computed_s, reduced_s) - alone_s, std::max(0.0, reduced_s - computed_s)};
}

OverlapTime TimeOfGathers(const std::vector<GatheredUnit>& units, double contention) {
  double gathered_s = 0, wait_s = 0;
  for (const GatheredUnit& unit : units) {
    gathered_s += unit.gather_s;
    wait_s = std::max(wait_s, gathered_s - unit.needed_s);
  }
  return {wait_s + contention * (gathered_s - wait_s), wait_s};
}

}  // namespace autocfg
