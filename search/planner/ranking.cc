#include <array>
#include <cmath>

#include "search/planner/pareto_front.h"
#include "search/planner/recalibration/recalibration.h"
#include "search/planner/search_state.h"
#include "search/planner/strategy/by_time.h"

namespace autocfg {
namespace {

// Returns the prediction of a plan of which a slice was measured. The slice's deviation is attributed to
// compute.
Prediction CorrectedBySlice(const SearchState& s, std::size_t i) {
  Prediction p = s.records[i].raw;
  const double total = *s.candidates[i].measured_s;
  const double more = total - p.step_time_s;
  if (p.breakdown.compute + more >= 0) {
    p.breakdown.compute += more;
    p.step_time_s = total;
  } else {
    Scale(p, total / p.step_time_s);
  }
  SetInterval(p, std::hypot(s.records[i].noise_sigma, s.recalibration.residual_sigma()));
  return p;
}

// Returns the ranking's entry of a candidate, and that of a feasible plan that is none.
RankedPlan RankedCandidate(const SearchState& s, std::size_t i) {
  const CandidatePlan& c = s.candidates[i];
  RankedPlan ranked;
  ranked.plan = c.plan;
  ranked.predicted = c.slice ? CorrectedBySlice(s, i) : c.predicted;
  ranked.slice = c.slice;
  ranked.trials = s.records[i].counted;
  if (c.measured_s && !c.slice) ranked.median_step_time_s = c.measured_s;
  return ranked;
}

RankedPlan RankedOther(const SearchState& s, const ParallelPlan& plan, const Prediction& raw) {
  RankedPlan ranked{.plan = plan, .predicted = raw, .median_step_time_s = {}};
  if (s.calibrated) {
    const Correction correction = s.recalibration.For(ranked.plan, ranked.predicted.breakdown);
    ranked.predicted = Corrected(ranked.predicted, correction);
  }
  return ranked;
}

// Returns the prediction of a feasible plan; FeasiblePlans::slower come after the others.
Prediction OtherPrediction(const SearchState& s, std::size_t i) {
  if (i < s.feasible.plans.size()) return s.RawPrediction(i);
  i -= s.feasible.plans.size();
  Prediction p = s.costs->Estimate(s.feasible.SlowerAt(i));
  Scale(p, s.feasible.slower[i].seconds / p.step_time_s);
  return p;
}

}  // namespace

std::vector<RankedPlan> RankPlans(SearchState& s, std::size_t limit) {
  // Tiers: plans measured as a whole; candidates with predictions, corrected by a slice or not; all other
  // plans. Each tier is sorted by time.
  std::array<std::vector<TimedPlan>, 3> tiers;  // indices of candidates; of feasible plans in the last tier
  std::vector<bool> is_candidate(s.feasible.plans.size());
  for (std::size_t i = 0; i < s.candidates.size(); ++i) {
    const CandidatePlan& c = s.candidates[i];
    is_candidate[s.records[i].feasible] = true;
    if (c.failed) continue;
    tiers[c.measured_s && !c.slice ? 0 : 1].push_back({c.measured_s.value_or(c.predicted.step_time_s), i});
  }
  if (s.calibrated && s.candidates.empty()) {
    tiers[2] = s.times.Fastest(*s.costs, s.feasible, limit);
  } else {
    for (std::size_t i = 0; i < s.feasible.plans.size(); ++i) {
      if (!is_candidate[i]) tiers[2].push_back({s.feasible.plans[i].seconds, i});
    }
  }
  const auto of_candidate = [&](std::size_t i) {
    return Preference(s.records[i].raw.memory.Total(), s.candidates[i].plan);
  };
  const auto of_other = [&](std::size_t i) {
    const ParallelPlan plan = s.feasible.PlanAt(i);
    return Preference(s.costs->PredictMemory(plan).memory.Total(), plan);
  };
  for (std::size_t tier = 0; tier < tiers.size(); ++tier) {
    if (tier < 2) {
      SortByTime(tiers[tier], limit, of_candidate);
    } else {
      SortByTime(tiers[tier], limit, of_other);
    }
    limit -= tiers[tier].size();
  }

  std::vector<RankedPlan> ranking;
  for (const std::size_t tier : {0u, 1u}) {
    for (const auto& [seconds, i] : tiers[tier]) ranking.push_back(RankedCandidate(s, i));
  }
  for (const auto& [seconds, i] : tiers[2])
    ranking.push_back(RankedOther(s, s.feasible.PlanAt(i), s.RawPrediction(i)));
  return ranking;
}

std::vector<RankedPlan> MemoryFront(const SearchState& s, std::size_t limit) {
  ParetoFront front;
  std::vector<bool> is_candidate(s.feasible.plans.size());
  for (std::size_t i = 0; i < s.candidates.size(); ++i) {
    const CandidatePlan& c = s.candidates[i];
    const std::size_t plan = s.records[i].feasible;
    is_candidate[plan] = true;
    if (c.failed) continue;
    front.Offer({c.measured_s.value_or(c.predicted.step_time_s), s.feasible.plans[plan].choice.arena_kib, i});
  }
  // Other plans are slower than all candidates, so they are of the front only if they take less memory. Their
  // corrections are computed for these alone.
  // All plans of the front are timed (SearchLoop::SetCalibration).
  const std::size_t candidates = s.candidates.size(), least = s.feasible.plans.size();
  const auto offer = [&](const FeasiblePlan& plan, std::size_t i) {
    if (!plan.timed) return;
    double seconds = plan.seconds;
    if (candidates > 0) {
      if (plan.choice.arena_kib >= front.LeastMemory()) return;
      const ParallelPlan other = s.feasible.table.Unpack(plan.choice.plan);
      seconds *= std::exp(s.recalibration.For(other, OtherPrediction(s, i).breakdown).log_mean);
    }
    front.Offer({seconds, plan.choice.arena_kib, candidates + i});
  };
  for (std::size_t i = 0; i < least; ++i) {
    if (!is_candidate[i]) offer(s.feasible.plans[i], i);
  }
  for (std::size_t i = 0; i < s.feasible.slower.size(); ++i) offer(s.feasible.slower[i], least + i);
  std::vector<RankedPlan> plans;
  for (const ParetoFront::Point& point : front.Points(limit)) {
    if (point.index < candidates) {
      plans.push_back(RankedCandidate(s, point.index));
      continue;
    }
    const std::size_t i = point.index - candidates;
    plans.push_back(RankedOther(s, i < least ? s.feasible.PlanAt(i) : s.feasible.SlowerAt(i - least),
                                OtherPrediction(s, i)));
  }
  return plans;
}

}  // namespace autocfg
