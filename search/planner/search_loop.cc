#include "search/planner/search_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "search/planner/by_time.h"
#include "search/planner/calibration_ops.h"
#include "search/planner/confirmation.h"
#include "search/planner/exhaustive_strategy.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/nominal_times.h"
#include "search/planner/racing_strategy.h"
#include "search/planner/recalibration.h"
#include "search/planner/shortlist.h"
#include "search/stats/statistics.h"
#include "search/text/plan_text.h"

namespace autocfg {
namespace {

constexpr int kMostLost = 2;  // a plan whose trial was lost or cancelled is asked for this often again
constexpr double kNinetyPercent = 1.645;
constexpr double kLeastNoise = 0.005;
// How well known the part of a step is that a slice does not show: messages and bubbles.
constexpr double kUnseenSigma = 0.1;

void SetInterval(Prediction& p, double sigma) {
  const double spread = std::exp(kNinetyPercent * sigma);
  p.step_time_low_s = p.step_time_s / spread;
  p.step_time_high_s = p.step_time_s * spread;
}

Prediction Corrected(Prediction p, const Correction& correction) {
  Scale(p, std::exp(correction.log_mean));
  SetInterval(p, correction.sigma);
  return p;
}

// What the loop keeps about a candidate beside what a strategy sees.
struct Record {
  std::size_t feasible = 0;  // index among the feasible plans
  Prediction raw;            // before recalibration
  std::vector<double> steps;
  std::size_t first_steps = 0;  // steps of its first trial
  double first_device_s = 0;
  int lost = 0;
  double slice_s = 0;      // of a slice: its predicted time
  double noise_sigma = 0;  // relative standard error of its measured time
};

}  // namespace

struct SearchLoop::State {
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  SearchOptions options;
  SearchSpace space;
  std::unique_ptr<CostModel> costs;  // by nominal times before the calibration
  bool calibrated = false;
  SearchPhase phase = SearchPhase::kCalibrating;
  SearchCounts counts;
  FeasiblePlans feasible;
  SimulatedPlans simulated;
  Recalibration recalibration{1, {}};
  std::vector<CandidatePlan> candidates;  // that the strategy chooses from; none where nothing is measured
  std::vector<Record> records;            // by candidate
  std::unique_ptr<Strategy> strategy;
  // Of the current round, not handed out yet: candidate, repeat.
  std::vector<std::pair<std::size_t, std::int64_t>> drawn;
  std::set<std::pair<std::size_t, std::int64_t>> asked;  // handed out, not observed yet

  void Reject(const std::string& reason) { ++counts.rejected[reason]; }

  FeasiblePlans FindFeasible(CostModel& cost_model, std::int64_t device_overhead_bytes) const {
    return FindFeasiblePlans(space, cost_model, MemoryCapacity(cluster) - device_overhead_bytes);
  }

  void CountFeasible() {
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

  Prediction RawPrediction(std::size_t i) const {
    return calibrated ? PredictionOf(*costs, feasible, simulated, i)
                      : costs->PredictMemory(feasible.PlanAt(i));
  }

  bool IsSlice(const ParallelPlan& plan) const {
    return options.measurable_ranks > 0 && RankCount(plan) > options.measurable_ranks;
  }

  // The plans that the strategy is to choose from.
  void MakeCandidates() {
    std::vector<std::size_t> chosen(feasible.plans.size());
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
    if (!options.exhaustive && chosen.size() > kMostCandidates) {
      const auto faster = [&](std::size_t a, std::size_t b) {
        const double ta = feasible.plans[a].step_time_s, tb = feasible.plans[b].step_time_s;
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
        i = feasible.plans[static_cast<std::size_t>(i)].recomputes_less;  // less still, and so no slower
      }
      return kNoCandidate;
    };
    for (const std::size_t i : chosen) {
      records.push_back({.feasible = i, .raw = RawPrediction(i), .steps = {}});
      candidates.push_back({.plan = feasible.PlanAt(i),
                            .predicted = records.back().raw,
                            .measured_s = {},
                            .recomputes_less = candidate_of(feasible.plans[i].recomputes_less)});
    }
  }

  void Recalibrate() {
    std::vector<RatioObservation> observations;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const CandidatePlan& c = candidates[i];
      if (!c.measured_s) continue;
      observations.push_back(
          {c.plan, std::log(*c.measured_s / records[i].raw.step_time_s), records[i].noise_sigma});
    }
    recalibration = Recalibration(model.layers, observations);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Correction correction = recalibration.For(candidates[i].plan);
      Prediction& p = candidates[i].predicted = Corrected(records[i].raw, correction);
      // Never less than what recomputes less of the same: that comes earlier.
      if (const double least_s = LeastSeconds(i); p.step_time_s < least_s) {
        Scale(p, least_s / p.step_time_s);
        SetInterval(p, correction.sigma);
      }
    }
  }

  // What a plan that is not measured takes at least: as much more than one that does the same and recomputes
  // less as was predicted. 0: there is none.
  double LeastSeconds(std::size_t i) const {
    if (candidates[i].measured_s) return 0;
    std::size_t less = candidates[i].recomputes_less;
    while (less != kNoCandidate && candidates[less].failed) less = candidates[less].recomputes_less;
    if (less == kNoCandidate) return 0;
    const double less_s = candidates[less].measured_s.value_or(candidates[less].predicted.step_time_s);
    return less_s * records[i].raw.step_time_s / records[less].raw.step_time_s;
  }

  // Draws the next round where nothing is outstanding.
  void Advance() {
    if (phase == SearchPhase::kDone || phase == SearchPhase::kCalibrating || !drawn.empty() || !asked.empty())
      return;
    Recalibrate();
    bool repeats_only = true;
    for (std::size_t i : strategy->Suggest(candidates)) {
      drawn.emplace_back(i, candidates[i].repeats);
      repeats_only = repeats_only && candidates[i].repeats > 0;
    }
    if (drawn.empty()) {
      phase = SearchPhase::kDone;
    } else {
      phase = repeats_only ? SearchPhase::kConfirming : SearchPhase::kMeasuring;
    }
  }

  void Fail(std::size_t i, const std::string& reason) {
    candidates[i].failed = true;
    Reject(reason);
  }

  void Measured(std::size_t i, const Sample& sample) {
    CandidatePlan& c = candidates[i];
    Record& r = records[i];
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
    const double median = Median(r.steps);
    c.measured_s = median;
    c.measured_ci95_s = MedianCi95(r.steps).value_or(0);
    r.noise_sigma = std::max(kLeastNoise, c.measured_ci95_s / 1.96 / median);
    if (c.slice) {
      // The slice is a part of the step: the step takes at least as long.
      r.slice_s = SliceSeconds(*costs, c.plan, ChooseSlice(*costs, c.plan).pipeline);
      c.measured_s = std::max(median, r.raw.step_time_s + median - r.slice_s);
      const double unseen = std::max(0.0, *c.measured_s - median) / *c.measured_s;
      r.noise_sigma = std::hypot(r.noise_sigma * (1 - unseen), kUnseenSigma * unseen);
      r.noise_sigma = std::max(kLeastNoise, r.noise_sigma);
    }
  }

  // The prediction of a plan of which a slice was measured: the slice's deviation is one of compute.
  Prediction CorrectedBySlice(std::size_t i) const {
    Prediction p = records[i].raw;
    const double total = *candidates[i].measured_s;
    const double more = total - p.step_time_s;
    if (p.breakdown.compute + more >= 0) {
      p.breakdown.compute += more;
      p.step_time_s = total;
    } else {
      Scale(p, total / p.step_time_s);
    }
    SetInterval(p, std::hypot(records[i].noise_sigma, recalibration.residual_sigma()));
    return p;
  }

  // Lost or cancelled: it may be asked for again, a few times.
  void Lost(std::size_t i, const std::string& reason) {
    if (++records[i].lost <= kMostLost) return;
    if (candidates[i].repeats > 0) {
      candidates[i].repeatable = false;
    } else {
      Fail(i, reason);
    }
  }

  // The mean factor by which measurements correct predictions: for the plans that are no candidates.
  double MeanCorrection() const {
    if (candidates.empty()) return 1;
    double sum = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      sum += std::log(candidates[i].predicted.step_time_s / records[i].raw.step_time_s);
    }
    return std::exp(sum / static_cast<double>(candidates.size()));
  }
};

std::string_view Name(SearchPhase phase) {
  switch (phase) {
    case SearchPhase::kCalibrating: return "calibrating";
    case SearchPhase::kMeasuring: return "measuring";
    case SearchPhase::kConfirming: return "confirming";
    case SearchPhase::kDone: return "done";
  }
  return "unknown";
}

SearchLoop::SearchLoop(std::unique_ptr<State> state) : state_(std::move(state)) {}
SearchLoop::SearchLoop(SearchLoop&&) noexcept = default;
SearchLoop& SearchLoop::operator=(SearchLoop&&) noexcept = default;
SearchLoop::~SearchLoop() = default;

absl::StatusOr<SearchLoop> SearchLoop::Create(const ModelSpec& model, const Workload& workload,
                                              const ClusterSpec& cluster, const AxisValues& space,
                                              const SearchOptions& options) {
  if (absl::Status status = Validate(model); !status.ok()) return status;
  if (absl::Status status = options.predict_only ? CheckPredictable(model) : CheckEngineSupports(model);
      !status.ok())
    return status;
  if (absl::Status status = Validate(workload, model); !status.ok()) return status;
  if (absl::Status status = Validate(cluster); !status.ok()) return status;
  for (const auto& [name, value] : {std::pair("max_trials", options.max_trials),
                                    std::pair("measurable_ranks", options.measurable_ranks)}) {
    if (value < 0)
      return absl::InvalidArgumentError(fmt::format("{} is {}; it must not be negative", name, value));
  }
  absl::StatusOr<SearchSpace> plans =
      SearchSpace::Create(model, workload, RankCount(cluster), space, {.predict_only = options.predict_only});
  if (!plans.ok()) return plans.status();

  auto state = std::make_unique<State>();
  state->model = model;
  state->workload = workload;
  state->cluster = cluster;
  state->options = options;
  state->space = *std::move(plans);
  if (options.exhaustive) {
    state->strategy = std::make_unique<ExhaustiveStrategy>(options.max_trials);
  } else {
    state->strategy = std::make_unique<RacingStrategy>(options.max_trials);
  }
  std::int64_t overhead = 0;
  for (const NodeGroup& group : cluster.groups) overhead = std::max(overhead, group.device.overhead_bytes);
  state->costs =
      std::make_unique<CostModel>(model, workload, cluster, std::make_shared<const NominalTimes>(), overhead);
  state->feasible = state->FindFeasible(*state->costs, overhead);
  state->CountFeasible();
  if (state->feasible.plans.empty()) state->phase = SearchPhase::kDone;
  return SearchLoop(std::move(state));
}

SearchPhase SearchLoop::phase() const { return state_->phase; }
const SearchCounts& SearchLoop::counts() const { return state_->counts; }
std::optional<ParallelPlan> SearchLoop::Smallest() const { return state_->feasible.smallest; }

std::vector<OpDesc> SearchLoop::CalibrationOps() const {
  const FeasiblePlans& feasible = state_->feasible;
  std::vector<ParallelPlan> plans;
  std::set<std::array<std::int32_t, 4>> seen;
  for (std::size_t i = 0; i < feasible.plans.size(); ++i) {
    const CompactPlan& p = feasible.plans[i].plan;
    if (seen.insert({p.tp, p.pp, p.dp, p.micro_batch}).second) plans.push_back(feasible.PlanAt(i));
  }
  return ListCalibrationOps(state_->model, state_->workload, plans);
}

absl::Status SearchLoop::SetCalibration(const OpTimes& times, std::int64_t device_overhead_bytes) {
  for (const OpTime& m : times.measured()) {
    if (!(m.seconds > 0) || !std::isfinite(m.seconds)) {
      return absl::InvalidArgumentError(
          fmt::format("calibration: {} took {} s; times are positive", ToString(m.op), m.seconds));
    }
  }
  return SetCalibration(std::make_shared<const OpTimes>(times), device_overhead_bytes);
}

absl::Status SearchLoop::SetCalibration(std::shared_ptr<const OpTimeModel> times,
                                        std::int64_t device_overhead_bytes) {
  State& s = *state_;
  if (s.phase != SearchPhase::kCalibrating) {
    return absl::FailedPreconditionError(
        fmt::format("the search is {}: it takes no calibration", Name(s.phase)));
  }
  if (device_overhead_bytes < 0) {
    return absl::InvalidArgumentError(
        fmt::format("device overhead is {} bytes; it must not be negative", device_overhead_bytes));
  }
  // Nothing changes before everything is known to be right.
  auto costs =
      std::make_unique<CostModel>(s.model, s.workload, s.cluster, std::move(times), device_overhead_bytes);
  FeasiblePlans feasible = s.FindFeasible(*costs, device_overhead_bytes);
  absl::StatusOr<SimulatedPlans> simulated = PredictTimes(*costs, feasible);
  if (!simulated.ok()) return simulated.status();
  s.costs = std::move(costs);
  s.feasible = std::move(feasible);
  s.simulated = *std::move(simulated);
  s.calibrated = true;
  s.CountFeasible();
  s.phase = s.feasible.plans.empty() || s.options.predict_only ? SearchPhase::kDone : SearchPhase::kMeasuring;
  if (s.phase == SearchPhase::kMeasuring) s.MakeCandidates();
  s.Recalibrate();
  s.Advance();
  return absl::OkStatus();
}

std::vector<TrialRequest> SearchLoop::Next() {
  State& s = *state_;
  std::vector<TrialRequest> requests;
  for (const auto& [i, repeat] : s.drawn) {
    const CandidatePlan& c = s.candidates[i];
    std::optional<SliceRank> slice;
    if (s.IsSlice(c.plan)) slice = ChooseSlice(*s.costs, c.plan);
    requests.push_back({c.plan, repeat, c.predicted, slice});
    s.asked.emplace(i, repeat);
  }
  s.drawn.clear();
  return requests;
}

absl::Status SearchLoop::Observe(const ParallelPlan& plan, std::int64_t repeat, TrialOutcome outcome,
                                 const Sample& sample) {
  State& s = *state_;
  const auto is_it = [&](const auto& trial) {
    return trial.second == repeat && s.candidates[trial.first].plan == plan;
  };
  const auto drawn = std::find_if(s.drawn.begin(), s.drawn.end(), is_it);  // a replay need not call Next
  const auto asked = std::find_if(s.asked.begin(), s.asked.end(), is_it);
  if (drawn == s.drawn.end() && asked == s.asked.end()) {
    return absl::InvalidArgumentError(
        fmt::format("repeat {} of plan {} was never asked for", repeat, PlanText(plan)));
  }
  const std::size_t i = drawn != s.drawn.end() ? drawn->first : asked->first;
  if (outcome == TrialOutcome::kMeasured) {
    const bool valid =
        !sample.step_time_s.empty() && std::all_of(sample.step_time_s.begin(), sample.step_time_s.end(),
                                                   [](double t) { return t > 0 && std::isfinite(t); });
    if (!valid || !(sample.device_s >= 0) || !std::isfinite(sample.device_s)) {
      return absl::InvalidArgumentError(fmt::format(
          "the measurement of plan {} has no step times, or one that is not positive", PlanText(plan)));
    }
    if (sample.slice != s.IsSlice(plan)) {
      return absl::InvalidArgumentError(fmt::format("the measurement of plan {} is {}, and {} was asked for",
                                                    PlanText(plan), sample.slice ? "a slice" : "of all ranks",
                                                    sample.slice ? "all ranks" : "a slice"));
    }
  }
  if (asked != s.asked.end()) s.asked.erase(asked);
  if (drawn != s.drawn.end()) s.drawn.erase(drawn);
  switch (outcome) {
    case TrialOutcome::kMeasured: s.Measured(i, sample); break;
    case TrialOutcome::kOutOfMemory: s.Fail(i, "measured_out_of_memory"); break;
    case TrialOutcome::kFailed: s.Fail(i, "failed"); break;
    case TrialOutcome::kTimedOut: s.Fail(i, "timed_out"); break;
    case TrialOutcome::kCancelled: s.Lost(i, "cancelled"); break;
    case TrialOutcome::kLost: s.Lost(i, "lost"); break;
  }
  if (s.phase == SearchPhase::kDone) {
    s.Recalibrate();  // late, after Stop: it still informs what is shown
  } else {
    s.Advance();
  }
  return absl::OkStatus();
}

void SearchLoop::Stop() {
  state_->drawn.clear();
  state_->phase = SearchPhase::kDone;
}

std::vector<RankedPlan> SearchLoop::Ranking(std::size_t limit) const {
  const State& s = *state_;
  // Whole plans measured; what is predicted, with or without a slice; the others. By time within.
  std::array<std::vector<TimedPlan>, 3> tiers;  // indices of candidates, in the last one of feasible plans
  std::vector<bool> is_candidate(s.feasible.plans.size());
  for (std::size_t i = 0; i < s.candidates.size(); ++i) {
    const CandidatePlan& c = s.candidates[i];
    is_candidate[s.records[i].feasible] = true;
    if (c.failed) continue;
    tiers[c.measured_s && !c.slice ? 0 : 1].push_back({c.measured_s.value_or(c.predicted.step_time_s), i});
  }
  for (std::size_t i = 0; i < s.feasible.plans.size(); ++i) {
    if (!is_candidate[i]) tiers[2].push_back({s.feasible.plans[i].step_time_s, i});
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
    for (const auto& [seconds, i] : tiers[tier]) {
      const CandidatePlan& c = s.candidates[i];
      RankedPlan& ranked = ranking.emplace_back();
      ranked.plan = c.plan;
      ranked.predicted = c.slice ? s.CorrectedBySlice(i) : c.predicted;
      ranked.step_time_s = s.records[i].steps;
      ranked.ci95_s = MedianCi95(ranked.step_time_s);
      ranked.slice = c.slice;
      if (tier == 0) ranked.median_step_time_s = c.measured_s;
      if (c.slice) ranked.slice_step_time_s = Median(ranked.step_time_s);
    }
  }
  for (const auto& [seconds, i] : tiers[2]) {
    RankedPlan& ranked = ranking.emplace_back();
    ranked.plan = s.feasible.PlanAt(i);
    ranked.predicted = s.RawPrediction(i);
    if (s.calibrated) ranked.predicted = Corrected(ranked.predicted, s.recalibration.For(ranked.plan));
  }
  return ranking;
}

double SearchLoop::UnmeasuredDeviceSeconds() const {
  const State& s = *state_;
  // A trial takes a start, and time in proportion to the step that it runs: fitted to the trials so far.
  std::vector<TimedSize> trials;
  for (const Record& r : s.records) {
    if (r.first_steps > 0) trials.push_back({Median(r.steps), r.first_device_s});
  }
  if (trials.empty()) return 0;
  const LinkModel trial = FitLine(trials);
  double sum = 0;
  std::vector<bool> is_candidate(s.feasible.plans.size());
  for (std::size_t i = 0; i < s.candidates.size(); ++i) {
    const CandidatePlan& c = s.candidates[i];
    is_candidate[s.records[i].feasible] = true;
    if (s.records[i].first_steps > 0 || c.failed) continue;
    double seconds = c.predicted.step_time_s;
    if (s.IsSlice(c.plan)) {
      const double factor = seconds / s.records[i].raw.step_time_s;
      seconds = factor * SliceSeconds(*s.costs, c.plan, ChooseSlice(*s.costs, c.plan).pipeline);
    }
    sum += trial.Seconds(seconds);
  }
  const double factor = s.MeanCorrection();
  for (std::size_t i = 0; i < s.feasible.plans.size(); ++i) {
    if (is_candidate[i]) continue;
    double seconds = s.feasible.plans[i].step_time_s;
    const ParallelPlan plan = s.feasible.PlanAt(i);
    if (s.IsSlice(plan)) seconds = SliceSeconds(*s.costs, plan, ChooseSlice(*s.costs, plan).pipeline);
    sum += trial.Seconds(factor * seconds);
  }
  return sum;
}

std::int64_t SearchLoop::PlansLeft() const {
  const State& s = *state_;
  return s.phase != SearchPhase::kDone || s.options.predict_only ? 0 : s.strategy->PlansLeft(s.candidates);
}

std::int64_t SearchLoop::TrialsLeft() const {
  const State& s = *state_;
  if (s.phase == SearchPhase::kDone || s.options.predict_only) return 0;
  const auto outstanding = static_cast<std::int64_t>(s.drawn.size() + s.asked.size());
  return std::max(outstanding, s.strategy->TrialsLeft(s.candidates));
}

}  // namespace autocfg
