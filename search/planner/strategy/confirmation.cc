#include "search/planner/strategy/confirmation.h"

#include <algorithm>

namespace autocfg {
namespace {

constexpr double kTiedWithin = 0.05;
constexpr std::size_t kMostTied = 3;
constexpr int kMostRuns = 4;  // the first and three repeats

bool Measured(const CandidatePlan& c) { return c.measured_s.has_value() && !c.failed; }

}  // namespace

std::int64_t ConfirmationsDone(const std::vector<CandidatePlan>& candidates) {
  std::int64_t done = 0;
  for (const CandidatePlan& c : candidates) done += std::max(0, c.repeats - 1);
  return done;
}

std::size_t BestMeasured(const std::vector<CandidatePlan>& candidates) {
  std::size_t best = candidates.size();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!Measured(candidates[i])) continue;
    if (best == candidates.size() || *candidates[i].measured_s < *candidates[best].measured_s) best = i;
  }
  return best;
}

std::vector<std::size_t> SuggestConfirmation(const std::vector<CandidatePlan>& candidates) {
  const std::size_t best = BestMeasured(candidates);
  if (best == candidates.size() || candidates[best].slice) return {};
  const double median = *candidates[best].measured_s;
  const double high = median + candidates[best].measured_ci95_s;
  std::vector<std::size_t> tied;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const CandidatePlan& c = candidates[i];
    if (!Measured(c) || c.slice) continue;
    if (*c.measured_s <= median * (1 + kTiedWithin) || *c.measured_s - c.measured_ci95_s <= high)
      tied.push_back(i);
  }
  if (tied.size() < 2) return {};
  std::stable_sort(tied.begin(), tied.end(), [&](std::size_t a, std::size_t b) {
    return *candidates[a].measured_s < *candidates[b].measured_s;
  });
  tied.resize(std::min(tied.size(), kMostTied));
  std::erase_if(
      tied, [&](std::size_t i) { return candidates[i].repeats >= kMostRuns || !candidates[i].repeatable; });
  if (ConfirmationsDone(candidates) + static_cast<std::int64_t>(tied.size()) > kMostConfirmations) return {};
  return tied;
}

}  // namespace autocfg
