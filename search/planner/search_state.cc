#include "search/planner/search_state.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/statistics.h"
#include "search/planner/plans/resolved_run.h"
#include "search/planner/recalibrated_chances.h"
#include "search/planner/recalibration/recalibration.h"
#include "search/planner/slice.h"
#include "search/schedule/program.h"

namespace autocfg {
namespace {

constexpr int kMostLost = 2;  // retries of a plan whose trial was lost or cancelled
constexpr double kLeastNoise = 0.005;
// A median below this share of its expectation is doubted: the predictions of plans that ran were never wrong
// by so much, a clock or a program that is broken easily is. A plan's first measurement counts once another
// trial gives a median within the factor below; a later one that is doubted never counts. After so many
// doubted trials, no more are asked for.
constexpr double kDoubtedBelow = 0.1;
constexpr double kAgreeWithin = 2;
constexpr int kMostDoubts = 3;
// Relative uncertainty of the part of a step that a slice does not show: messages and bubbles.
constexpr double kUnseenSigma = 0.1;

// Returns a lower bound for the time of an unmeasured plan, from the same plan with less recompute: that
// plan's time, scaled by the predicted ratio. Returns 0 if there is no such plan.
double LeastSeconds(const SearchState& s, std::size_t i) {
  if (s.candidates[i].measured_s) return 0;
  std::size_t less = s.candidates[i].less_work;
  while (less != kNoCandidate && s.candidates[less].failed) less = s.candidates[less].less_work;
  if (less == kNoCandidate) return 0;
  const double less_s = s.candidates[less].measured_s.value_or(s.candidates[less].predicted.step_time_s);
  return less_s * s.records[i].raw.step_time_s / s.records[less].raw.step_time_s;
}

}  // namespace

absl::StatusOr<FeasiblePlans> SearchState::FindFeasible(CostModel& cost_model) {
  return FindFeasiblePlans(space, cost_model, cost_model.UsableArenaBytes(), options.budget, watch);
}

void SearchState::CountFeasible() {
  counts = {};
  counts.enumerated = feasible.enumerated;
  counts.out_of_memory = feasible.out_of_memory;
  if (counts.out_of_memory > 0) counts.rejected["out_of_memory"] = counts.out_of_memory;
  for (int i = 0; i < kIllegalReasonCount; ++i) {
    const std::int64_t illegal = feasible.illegal[static_cast<std::size_t>(i)];
    if (illegal == 0) continue;
    counts.illegal += illegal;
    counts.rejected[std::string(Name(static_cast<IllegalReason>(i)))] += illegal;
  }
  counts.predicted = static_cast<std::int64_t>(feasible.plans.size());
  if (calibrated) counts.evaluated = counts.predicted;
}

Prediction SearchState::RawPrediction(std::size_t i) const {
  return calibrated ? PredictionOf(*costs, feasible, timed, i) : costs->PredictMemory(feasible.PlanAt(i));
}

bool SearchState::IsSlice(const ParallelPlan& plan) const {
  return options.measurable_ranks > 0 && RankCount(plan) > options.measurable_ranks;
}

void SearchState::PredictHiddenComm(std::size_t candidate) {
  Prediction& raw = records[candidate].raw;
  CandidatePlan& c = candidates[candidate];
  if (raw.hidden_comm_s || !CheckProgramSize(problem.workload, c.plan).ok()) return;
  const double hidden_s = costs->HiddenComm(c.plan);
  raw.hidden_comm_s = hidden_s;
  for (Prediction* scaled : {&c.predicted, &records[candidate].announced})
    scaled->hidden_comm_s = hidden_s * scaled->step_time_s / raw.step_time_s;
}

void SearchState::MakeCandidates() {
  std::vector<std::size_t> chosen(feasible.plans.size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  if (!options.exhaustive && chosen.size() > kMostCandidates) {
    const auto faster = [&](std::size_t a, std::size_t b) {
      const double ta = feasible.plans[a].seconds, tb = feasible.plans[b].seconds;
      return std::pair(ta, a) < std::pair(tb, b);
    };
    std::nth_element(chosen.begin(), chosen.begin() + kMostCandidates, chosen.end(), faster);
    chosen.resize(kMostCandidates);
    std::sort(chosen.begin(), chosen.end());
  }
  const auto candidate_of = [&](std::int32_t i) {
    while (i != kNoPlan) {
      const auto found = std::lower_bound(chosen.begin(), chosen.end(), static_cast<std::size_t>(i));
      if (found != chosen.end() && *found == static_cast<std::size_t>(i)) {
        return static_cast<std::size_t>(found - chosen.begin());
      }
      // This plan recomputes even less, so it is no slower.
      i = feasible.plans[static_cast<std::size_t>(i)].less_work;
    }
    return kNoCandidate;
  };
  for (const std::size_t i : chosen) {
    records.push_back({.feasible = i, .raw = RawPrediction(i), .steps = {}});
    candidates.push_back({.plan = feasible.PlanAt(i),
                          .predicted = records.back().raw,
                          .measured_s = {},
                          .less_work = candidate_of(feasible.plans[i].less_work)});
  }
}

void SearchState::Recalibrate() {
  std::vector<RatioObservation> observations;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const CandidatePlan& c = candidates[i];
    if (!c.measured_s) continue;
    observations.push_back({.plan = c.plan,
                            .predicted = records[i].raw.breakdown,
                            .log_ratio = std::log(*c.measured_s / records[i].raw.step_time_s),
                            .noise_sigma = records[i].noise_sigma});
  }
  recalibration = Recalibration(problem.model.layers, observations);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Correction correction = recalibration.For(candidates[i].plan, records[i].raw.breakdown);
    Prediction& p = candidates[i].predicted = Corrected(records[i].raw, correction);
    // A plan is never faster than the same plan with less recompute, which comes earlier in the list.
    if (const double least_s = LeastSeconds(*this, i); p.step_time_s < least_s) {
      Scale(p, least_s / p.step_time_s);
      SetInterval(p, correction.sigma);
    }
  }
}

void SearchState::Advance() {
  if (phase == SearchPhase::kDone || phase == SearchPhase::kCalibrating || !drawn.empty() || !asked.empty())
    return;
  const auto draw = [&](std::size_t i) {
    drawn.emplace_back(i, NextRepeat(i));
    records[i].announced = candidates[i].predicted;
  };
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (records[i].doubted && !candidates[i].failed) draw(i);
  }
  if (!drawn.empty()) return;  // in the phase at hand
  bool repeats_only = true;
  for (std::size_t i : strategy->Suggest(candidates, RecalibratedChances(*this))) {
    draw(i);
    repeats_only = repeats_only && candidates[i].repeats > 0;
  }
  if (drawn.empty()) {
    phase = SearchPhase::kDone;
  } else {
    phase = repeats_only ? SearchPhase::kConfirming : SearchPhase::kMeasuring;
  }
}

double SearchState::ExpectedSeconds(std::size_t i) const {
  const CandidatePlan& c = candidates[i];
  if (!records[i].steps.empty()) return base::Median(records[i].steps);
  if (!IsSlice(c.plan)) return c.predicted.step_time_s;
  const double correction = c.predicted.step_time_s / records[i].raw.step_time_s;
  return correction * SliceSeconds(*costs, c.plan, ChooseSlice(*costs, c.plan).pipeline);
}

void SearchState::Measured(std::size_t i, std::int64_t repeat, const Sample& sample) {
  Record& r = records[i];
  const bool first = candidates[i].repeats == 0;
  const double median = base::Median(sample.step_time_s);
  const std::optional<Doubted> before = std::exchange(r.doubted, std::nullopt);
  if (before && first) {
    const double ratio = median / base::Median(before->sample.step_time_s);
    if (ratio < kAgreeWithin && ratio > 1 / kAgreeWithin) {  // both are the first measurement
      r.counted.push_back(before->repeat);
      Sample both = before->sample;
      both.step_time_s.insert(both.step_time_s.end(), sample.step_time_s.begin(), sample.step_time_s.end());
      both.device_s = (both.device_s + sample.device_s) / 2;
      return Accept(i, repeat, both);
    }
  }
  if (median >= kDoubtedBelow * ExpectedSeconds(i)) return Accept(i, repeat, sample);
  if (++r.doubts < kMostDoubts) {
    r.doubted = {repeat, sample};
  } else {
    GiveUp(i, "implausible");
  }
}

void SearchState::Accept(std::size_t i, std::int64_t repeat, const Sample& sample) {
  CandidatePlan& c = candidates[i];
  Record& r = records[i];
  r.counted.push_back(repeat);
  if (c.repeats == 0) {
    ++counts.measured;
    counts.slices += sample.slice;
    r.first_steps = sample.step_time_s.size();
    r.first_device_s = sample.device_s;
  }
  ++c.repeats;
  r.steps.insert(r.steps.end(), sample.step_time_s.begin(), sample.step_time_s.end());
  c.samples = r.steps.size();
  c.slice = sample.slice;
  const double median = base::Median(r.steps);
  c.measured_s = median;
  c.measured_ci95_s = base::MedianCi95(r.steps).value_or(0);
  r.noise_sigma = std::max(kLeastNoise, c.measured_ci95_s / 1.96 / median);
  if (c.slice) {
    // The slice is part of the step, so the step takes at least as long.
    const double predicted_s = SliceSeconds(*costs, c.plan, ChooseSlice(*costs, c.plan).pipeline);
    c.measured_s = std::max(median, r.raw.step_time_s + median - predicted_s);
    const double unseen = std::max(0.0, *c.measured_s - median) / *c.measured_s;
    r.noise_sigma = std::hypot(r.noise_sigma * (1 - unseen), kUnseenSigma * unseen);
    r.noise_sigma = std::max(kLeastNoise, r.noise_sigma);
  }
}

void SearchState::Fail(std::size_t i, const std::string& reason) {
  candidates[i].failed = true;
  ++counts.rejected[reason];
}

void SearchState::Lost(std::size_t i, const std::string& reason) {
  if (++records[i].lost > kMostLost) GiveUp(i, reason);
}

void SearchState::Deepen(std::size_t i) {
  DeeperPlans deeper(*costs, space);
  const std::size_t least = records[i].feasible;
  FeasiblePlan plan = feasible.plans[least];
  deeper.Set(candidates[i].plan, plan.choice.arena_kib);
  if (deeper.depths() == 0) return;
  const ParallelPlan next = deeper.At(0);
  if (std::any_of(candidates.begin(), candidates.end(),
                  [&](const CandidatePlan& c) { return c.plan == next; }))
    return;
  plan.choice = {feasible.table.Pack(next), deeper.Kib(0)};
  plan.others = 0;
  plan.less_work = static_cast<std::int32_t>(least);
  plan.seconds *= costs->Estimate(next).step_time_s / costs->Estimate(candidates[i].plan).step_time_s;
  feasible.plans.push_back(plan);
  records.push_back(
      {.feasible = feasible.plans.size() - 1, .raw = RawPrediction(feasible.plans.size() - 1), .steps = {}});
  candidates.push_back({.plan = next, .predicted = records.back().raw, .measured_s = {}, .less_work = i});
}

void SearchState::GiveUp(std::size_t i, const std::string& reason) {
  if (candidates[i].repeats > 0) {
    candidates[i].repeatable = false;
  } else {
    Fail(i, reason);
  }
}

}  // namespace autocfg
