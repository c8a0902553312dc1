#include "search/cost/unit_overlap.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace autocfg {

OverlapTime TimeOfStream(const std::vector<UnitSeconds>& blocks, UnitOverlap overlap) {
  Lanes lanes(overlap.contention);
  std::size_t next = 0;
  const auto gather = [&] {
    while (next < blocks.size() && blocks[next].gather_s == 0) ++next;
    return next < blocks.size() ? lanes.Issue(blocks[next++].gather_s) : 0;
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
    lanes.WaitFor(reduction.end_s);
    lanes.Compute(reduction.add_s);
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
      lanes.WaitFor(gathered_s);
      if (overlap.gathers) gathered_s = gather();
    }
    if (block.reduce_s > 0) finish(buffer_of(i));
    lanes.Compute(block.compute_s);
    if (block.reduce_s == 0) continue;
    pending[pending_count++] = {buffer_of(i), lanes.Issue(block.reduce_s), block.add_s};
    if (!overlap.reduces) finish_all();
  }
  finish_all();
  return lanes.Time();
}

OverlapTime TimeAfterComputes(double earlier_s, const std::vector<UnitSeconds>& blocks, double contention) {
  Lanes lanes(contention);
  lanes.Issue(earlier_s);
  for (const UnitSeconds& block : blocks) {
    lanes.Compute(block.compute_s);
    if (block.reduce_s > 0) lanes.Issue(block.reduce_s);
  }
  lanes.WaitForAll();
  return lanes.Added();
}

OverlapTime TimeOfGathers(const std::vector<GatheredUnit>& units, double contention) {
  Lanes lanes(contention);
  std::vector<std::pair<double, double>> reads;  // when computes alone reach it, and when it is gathered
  reads.reserve(units.size());
  for (const GatheredUnit& unit : units) reads.emplace_back(unit.needed_s, lanes.Issue(unit.gather_s));
  std::ranges::sort(reads);
  double computed_s = 0;
  for (const auto& [needed_s, gathered_s] : reads) {
    lanes.Compute(needed_s - std::exchange(computed_s, needed_s));
    lanes.WaitFor(gathered_s);
  }
  return lanes.Added();
}

}  // namespace autocfg
