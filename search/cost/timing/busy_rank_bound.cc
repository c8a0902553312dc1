#include "search/cost/timing/busy_rank_bound.h"

#include <algorithm>
#include <stdexcept>

namespace autocfg {
namespace {

// GPipe: one way down and one way back; one rank runs all other forwards, one all other backwards.
double GPipeBound(std::span<const AlikeRanks> ranks, double m) {
  StageTime way;
  double saves_s = 0;  // of the ranks not passed
  for (const AlikeRanks& alike : ranks) {
    const auto count = static_cast<double>(alike.count);
    way.forward += count * alike.first.forward;
    way.backward += count * alike.first.backward;
    saves_s += count * alike.first_saves_s;
  }
  double forward = 0, backward = way.backward - saves_s;
  for (const AlikeRanks& alike : ranks) {
    // The last of them: the first backward has passed it and the ranks after it.
    saves_s -= static_cast<double>(alike.count - 1) * alike.first_saves_s;
    forward = std::max(forward, (m - 1) * alike.busy.forward);
    backward = std::max(backward, way.backward - saves_s + (m - 1) * alike.busy.backward);
    saves_s -= alike.first_saves_s;
  }
  return way.forward + forward + backward;
}

// 1F1B and interleaved: from the first forward of a rank to its last backward.
double OneFOneBBound(std::span<const AlikeRanks> ranks, double m) {
  double longest = 0;
  StageTime before;  // of the ranks before
  for (const AlikeRanks& alike : ranks) {
    const auto others = static_cast<double>(alike.count - 1);
    before.forward += others * alike.first.forward;
    before.backward += others * alike.first.backward;
    longest = std::max(longest, before.forward + alike.first_input_s + m * alike.busy.Total() -
                                    alike.first_saves_s + before.backward);
    before.forward += alike.first.forward;
    before.backward += alike.first.backward;
  }
  return longest;
}

// ZB-H1: from the first forward of a rank to its last input gradient, then up to the first rank, which runs
// its last weight gradients.
double ZeroBubbleBound(std::span<const AlikeRanks> ranks, double m) {
  const auto last_weights = [m](const AlikeRanks& alike, double count) {
    return std::min(m, count) * alike.first.weights - (count < m ? 0 : alike.weights_save_s);
  };
  double longest = 0, passed = 0;
  StageTime before;
  for (const AlikeRanks& alike : ranks) {
    const auto others = static_cast<double>(alike.count - 1);
    before.forward += others * alike.first.forward;
    before.backward += others * alike.first.backward;
    passed += static_cast<double>(alike.count);
    const double all = m * alike.busy.Total() - alike.first_saves_s - alike.weights_save_s;
    longest = std::max(longest, before.forward + all - last_weights(alike, passed) + before.backward);
    before.forward += alike.first.forward;
    before.backward += alike.first.backward;
  }
  return longest + last_weights(ranks.front(), 1);
}

}  // namespace

void AddChunks(const StageTerms& terms, const StageCosts& costs, std::int64_t chunks, double input_s,
               double gradient_s, AlikeRanks& ranks) {
  const double shared = terms.ranks_per_core, times = static_cast<double>(chunks);
  const double saves_s = UnloadedSaving(costs, shared), weights_save_s = UnloadedWeightSaving(costs, shared);
  StageTime busy{UnloadedForward(costs, shared), UnloadedBackward(costs, shared),
                 UnloadedWeights(costs, shared)};
  if (terms.single) {
    busy.backward -= saves_s;
    busy.weights -= weights_save_s;
  } else {
    ranks.first_saves_s += times * saves_s;
    ranks.weights_save_s += times * weights_save_s;
  }
  const StageTime at{busy.forward + input_s, busy.backward + gradient_s, busy.weights};
  if (!ranks.has_first) {
    ranks.has_first = true;
    ranks.first = at;
    ranks.first_input_s = terms.overlaps_messages ? input_s : 0;
  }
  if (!terms.overlaps_messages) busy = at;
  ranks.busy.forward += times * busy.forward;
  ranks.busy.backward += times * busy.backward;
  ranks.busy.weights += times * busy.weights;
}

double BusyRankBound(std::span<const AlikeRanks> ranks, Schedule schedule, std::int64_t microbatches) {
  const auto m = static_cast<double>(microbatches);
  switch (schedule) {
    case Schedule::kGPipe: return GPipeBound(ranks, m);
    case Schedule::kOneFOneB:
    case Schedule::kInterleaved: return OneFOneBBound(ranks, m);
    case Schedule::kZeroBubbleH1: return ZeroBubbleBound(ranks, m);
  }
  throw std::logic_error("a schedule without a bound");
}

}  // namespace autocfg
