#include "search/planner/search_loop.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "search/planner/calibration_ops.h"
#include "search/planner/confirmation.h"
#include "search/planner/exhaustive_strategy.h"
#include "search/planner/racing_strategy.h"
#include "search/planner/recalibration.h"
#include "search/stats/statistics.h"
#include "search/text/plan_text.h"

namespace autocfg {
namespace {

constexpr std::size_t kShortlist = 64;
// Actions simulated for the shortlist in all, so that spaces of huge programs are still answered within a
// second or so.
constexpr std::int64_t kMostSimulatedActions = 3'000'000;
constexpr int kMostLost = 2;  // a plan whose trial was lost or cancelled is asked for this often again
constexpr double kNinetyPercent = 1.645;
constexpr double kLeastNoise = 0.005;

std::int64_t SimulatedActions(const Workload& workload, const ParallelPlan& plan) {
  return plan.pp * std::min<std::int64_t>(plan.dp, 2) * (6 * MicrobatchCount(workload, plan) + 5);
}

Prediction Corrected(Prediction p, const Correction& correction) {
  const double factor = std::exp(correction.log_mean);
  Breakdown& b = p.breakdown;
  for (double* part :
       {&b.compute, &b.recompute, &b.tp_comm, &b.pp_comm, &b.dp_comm, &b.bubble, &b.optimizer, &b.overhead}) {
    *part *= factor;
  }
  p.step_time_s *= factor;
  const double spread = std::exp(kNinetyPercent * correction.sigma);
  p.step_time_low_s = p.step_time_s / spread;
  p.step_time_high_s = p.step_time_s * spread;
  return p;
}

// What the loop keeps about a candidate beside what a strategy sees.
struct Record {
  Prediction raw;  // before recalibration
  std::vector<double> steps;
  std::size_t first_steps = 0;  // steps of its first trial
  double first_device_s = 0;
  int lost = 0;
};

}  // namespace

struct SearchLoop::State {
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  SearchOptions options;
  SearchPhase phase = SearchPhase::kCalibrating;
  SearchCounts counts;
  std::vector<CandidatePlan> candidates;
  std::vector<Record> records;  // by candidate
  std::map<ParallelPlan, std::size_t> index;
  std::unique_ptr<Strategy> strategy;
  std::vector<std::pair<std::size_t, std::int64_t>>
      drawn;  // of the current round, not handed out yet: candidate, repeat
  std::set<std::pair<std::size_t, std::int64_t>> asked;  // handed out, not observed yet

  void Reject(const std::string& reason) { ++counts.rejected[reason]; }

  void Reindex() {
    index.clear();
    for (std::size_t i = 0; i < candidates.size(); ++i) index[candidates[i].plan] = i;
    counts.predicted = static_cast<std::int64_t>(candidates.size());
  }

  // The closed form for all, the simulator for the best of them.
  absl::Status PredictTimes(CostModel& costs) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      records[i].raw = costs.Predict(candidates[i].plan);
      if (!std::isfinite(records[i].raw.step_time_s) || records[i].raw.step_time_s <= 0) {
        return absl::InvalidArgumentError(fmt::format(
            "the calibration gives no time for plan {}; run it again", PlanText(candidates[i].plan)));
      }
      order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return records[a].raw.step_time_s < records[b].raw.step_time_s;
    });
    order.resize(std::min(order.size(), kShortlist));
    std::int64_t actions = 0;
    for (std::size_t i : order) {
      actions += SimulatedActions(workload, candidates[i].plan);
      if (actions > kMostSimulatedActions) break;
      try {
        records[i].raw = costs.Simulate(candidates[i].plan);
      } catch (const std::logic_error& error) {
        return absl::InternalError(fmt::format("plan {}: {}", PlanText(candidates[i].plan), error.what()));
      }
    }
    return absl::OkStatus();
  }

  void Recalibrate() {
    std::vector<RatioObservation> observations;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const CandidatePlan& c = candidates[i];
      if (!c.measured_s) continue;
      const double noise = std::max(kLeastNoise, c.measured_ci95_s / 1.96 / *c.measured_s);
      observations.push_back({c.plan, std::log(*c.measured_s / records[i].raw.step_time_s), noise});
    }
    const Recalibration recalibration(observations);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      candidates[i].predicted = Corrected(records[i].raw, recalibration.For(candidates[i].plan));
    }
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
      r.first_steps = sample.step_time_s.size();
      r.first_device_s = sample.device_s;
    }
    ++c.repeats;
    r.steps.insert(r.steps.end(), sample.step_time_s.begin(), sample.step_time_s.end());
    c.samples = r.steps.size();
    c.measured_s = Median(r.steps);
    c.measured_ci95_s = MedianCi95(r.steps).value_or(0);
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
};

std::string_view Name(SearchPhase phase) {
  switch (phase) {
    case SearchPhase::kCalibrating:
      return "calibrating";
    case SearchPhase::kMeasuring:
      return "measuring";
    case SearchPhase::kConfirming:
      return "confirming";
    case SearchPhase::kDone:
      return "done";
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
  if (absl::Status status = CheckEngineSupports(model); !status.ok()) return status;
  if (absl::Status status = Validate(workload, model); !status.ok()) return status;
  if (absl::Status status = Validate(cluster); !status.ok()) return status;
  if (options.max_trials < 0) {
    return absl::InvalidArgumentError(
        fmt::format("max_trials is {}; it must not be negative", options.max_trials));
  }
  absl::StatusOr<SearchSpace> plans = SearchSpace::Create(model, workload, RankCount(cluster), space);
  if (!plans.ok()) return plans.status();

  auto state = std::make_unique<State>();
  state->model = model;
  state->workload = workload;
  state->cluster = cluster;
  state->options = options;
  if (options.exhaustive) {
    state->strategy = std::make_unique<ExhaustiveStrategy>(options.max_trials);
  } else {
    state->strategy = std::make_unique<RacingStrategy>(options.max_trials);
  }
  const CostModel costs(model, workload, cluster, OpTimes());
  const SearchSpace::Counts counts = plans->ForEachLegal([&](const ParallelPlan& plan) {
    Prediction memory = costs.PredictMemory(plan);
    if (memory.feasible) {
      state->candidates.push_back({.plan = plan, .predicted = memory, .measured_s = {}});
      state->records.push_back({.raw = std::move(memory), .steps = {}});
    } else {
      ++state->counts.out_of_memory;
      state->Reject("out_of_memory");
    }
    return true;
  });
  state->counts.enumerated = counts.enumerated;
  for (int i = 0; i < kIllegalReasonCount; ++i) {
    const std::int64_t illegal = counts.illegal[static_cast<std::size_t>(i)];
    if (illegal == 0) continue;
    state->counts.illegal += illegal;
    state->counts.rejected[std::string(Name(static_cast<IllegalReason>(i)))] += illegal;
  }
  state->Reindex();
  if (state->candidates.empty()) state->phase = SearchPhase::kDone;
  return SearchLoop(std::move(state));
}

SearchPhase SearchLoop::phase() const { return state_->phase; }
const SearchCounts& SearchLoop::counts() const { return state_->counts; }

std::vector<OpDesc> SearchLoop::CalibrationOps() const {
  std::vector<ParallelPlan> plans;
  for (const CandidatePlan& c : state_->candidates) plans.push_back(c.plan);
  return ListCalibrationOps(state_->model, state_->workload, plans);
}

absl::Status SearchLoop::SetCalibration(const OpTimes& times, std::int64_t device_overhead_bytes) {
  State& s = *state_;
  if (s.phase != SearchPhase::kCalibrating) {
    return absl::FailedPreconditionError(
        fmt::format("the search is {}: it takes no calibration", Name(s.phase)));
  }
  if (device_overhead_bytes < 0) {
    return absl::InvalidArgumentError(
        fmt::format("device overhead is {} bytes; it must not be negative", device_overhead_bytes));
  }
  for (const OpTime& m : times.measured()) {
    if (!(m.seconds > 0) || !std::isfinite(m.seconds)) {
      return absl::InvalidArgumentError(
          fmt::format("calibration: {} took {} s; times are positive", ToString(m.op), m.seconds));
    }
  }
  const std::int64_t capacity = MemoryCapacity(s.cluster);
  const auto fits = [&](const Prediction& p) { return p.memory.Arena() + device_overhead_bytes <= capacity; };
  // Nothing changes before everything is known to be right.
  CostModel costs(s.model, s.workload, s.cluster, times, device_overhead_bytes);
  std::vector<CandidatePlan> candidates = s.candidates;
  std::vector<Record> records = s.records;
  std::int64_t dropped = 0;
  std::vector<CandidatePlan> kept;
  std::vector<Record> kept_records;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!fits(records[i].raw)) {
      ++dropped;
      continue;
    }
    kept.push_back(candidates[i]);
    kept_records.push_back(records[i]);
  }
  std::swap(s.candidates, kept);
  std::swap(s.records, kept_records);
  if (absl::Status status = s.PredictTimes(costs); !status.ok()) {
    s.candidates = std::move(candidates);
    s.records = std::move(records);
    return status;
  }
  s.counts.out_of_memory += dropped;
  if (dropped > 0) s.counts.rejected["out_of_memory"] += dropped;
  s.Reindex();
  s.counts.evaluated = s.counts.predicted;
  s.Recalibrate();
  s.phase = s.candidates.empty() || s.options.predict_only ? SearchPhase::kDone : SearchPhase::kMeasuring;
  s.Advance();
  return absl::OkStatus();
}

std::vector<TrialRequest> SearchLoop::Next() {
  State& s = *state_;
  std::vector<TrialRequest> requests;
  for (const auto& [i, repeat] : s.drawn) {
    requests.push_back({s.candidates[i].plan, repeat, s.candidates[i].predicted});
    s.asked.emplace(i, repeat);
  }
  s.drawn.clear();
  return requests;
}

absl::Status SearchLoop::Observe(const ParallelPlan& plan, std::int64_t repeat, TrialOutcome outcome,
                                 const Sample& sample) {
  State& s = *state_;
  const auto found = s.index.find(plan);
  const auto never_asked = [&] {
    return absl::InvalidArgumentError(
        fmt::format("repeat {} of plan {} was never asked for", repeat, PlanText(plan)));
  };
  if (found == s.index.end()) return never_asked();
  const std::size_t i = found->second;
  const std::pair<std::size_t, std::int64_t> key(i, repeat);
  const auto drawn = std::find(s.drawn.begin(), s.drawn.end(), key);  // a replay need not call Next
  if (drawn == s.drawn.end() && !s.asked.contains(key)) return never_asked();
  if (outcome == TrialOutcome::kMeasured) {
    const bool valid =
        !sample.step_time_s.empty() && std::all_of(sample.step_time_s.begin(), sample.step_time_s.end(),
                                                   [](double t) { return t > 0 && std::isfinite(t); });
    if (!valid || !(sample.device_s >= 0) || !std::isfinite(sample.device_s)) {
      return absl::InvalidArgumentError(fmt::format(
          "the measurement of plan {} has no step times, or one that is not positive", PlanText(plan)));
    }
  }
  s.asked.erase(key);
  if (drawn != s.drawn.end()) s.drawn.erase(drawn);
  switch (outcome) {
    case TrialOutcome::kMeasured:
      s.Measured(i, sample);
      break;
    case TrialOutcome::kOutOfMemory:
      s.Fail(i, "measured_out_of_memory");
      break;
    case TrialOutcome::kFailed:
      s.Fail(i, "failed");
      break;
    case TrialOutcome::kTimedOut:
      s.Fail(i, "timed_out");
      break;
    case TrialOutcome::kCancelled:
      s.Lost(i, "cancelled");
      break;
    case TrialOutcome::kLost:
      s.Lost(i, "lost");
      break;
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
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < s.candidates.size(); ++i) {
    if (!s.candidates[i].failed) order.push_back(i);
  }
  const auto key = [&](std::size_t i) {
    const CandidatePlan& c = s.candidates[i];
    return std::pair(!c.measured_s.has_value(), c.measured_s.value_or(c.predicted.step_time_s));
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  order.resize(std::min(order.size(), limit));
  std::vector<RankedPlan> ranking;
  for (std::size_t i : order) {
    const CandidatePlan& c = s.candidates[i];
    ranking.push_back(
        {c.plan, c.predicted, c.measured_s, MedianCi95(s.records[i].steps), s.records[i].steps});
  }
  return ranking;
}

double SearchLoop::UnmeasuredDeviceSeconds() const {
  const State& s = *state_;
  // A trial takes a start, and time in proportion to its step: fitted to the trials so far.
  std::vector<TimedSize> trials;
  for (std::size_t i = 0; i < s.candidates.size(); ++i) {
    if (s.records[i].first_steps > 0)
      trials.push_back({*s.candidates[i].measured_s, s.records[i].first_device_s});
  }
  const LinkModel trial = FitLine(trials);
  double sum = 0;
  for (std::size_t i = 0; i < s.candidates.size(); ++i) {
    const CandidatePlan& c = s.candidates[i];
    if (s.records[i].first_steps == 0 && !c.failed) sum += trial.Seconds(c.predicted.step_time_s);
  }
  return sum;
}

std::int64_t SearchLoop::TrialsLeft() const {
  const State& s = *state_;
  if (s.phase == SearchPhase::kDone || s.options.predict_only) return 0;
  const auto outstanding = static_cast<std::int64_t>(s.drawn.size() + s.asked.size());
  return std::max(outstanding, s.strategy->TrialsLeft(s.candidates));
}

}  // namespace autocfg
