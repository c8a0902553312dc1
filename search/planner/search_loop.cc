#include "search/planner/search_loop.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "search/cost/op_times/nominal_times.h"
#include "search/frameworks/framework_rules.h"
#include "search/plan/cluster/memory_margin.h"
#include "search/plan/plan_text.h"
#include "search/planner/calibration_ops.h"
#include "search/planner/feasible_plans.h"
#include "search/planner/recalibrated_chances.h"
#include "search/planner/search_state.h"
#include "search/planner/shortlist.h"
#include "search/planner/slice.h"
#include "search/planner/strategy/strategies.h"

namespace autocfg {

std::string_view Name(SearchPhase phase) {
  switch (phase) {
    case SearchPhase::kCalibrating: return "calibrating";
    case SearchPhase::kMeasuring: return "measuring";
    case SearchPhase::kConfirming: return "confirming";
    case SearchPhase::kDone: return "done";
  }
  return "unknown";
}

namespace {

std::unique_ptr<CostModel> CalibratedCosts(const SearchState& s, const KnownOpTimes& known) {
  return std::make_unique<CostModel>(s.problem, known.times, known.device_overhead_bytes,
                                     s.options.memory_margin);
}

// Returns the cost model for plans before the calibration.
std::unique_ptr<CostModel> NominalCosts(const SearchState& s) {
  return CalibratedCosts(s, {std::make_shared<const NominalTimes>(), DeviceOverheadBytes(s.problem.cluster)});
}

}  // namespace

SearchLoop::SearchLoop(std::unique_ptr<SearchState> state) : state_(std::move(state)) {}
SearchLoop::SearchLoop(SearchLoop&&) noexcept = default;
SearchLoop& SearchLoop::operator=(SearchLoop&&) noexcept = default;
SearchLoop::~SearchLoop() = default;

absl::StatusOr<SearchSpace> PlannedSpace(const Problem& problem, const AxisValues& space,
                                         const SearchOptions& options) {
  AxisValues values = space;
  const bool hides = HidesCollectives(problem.cluster);
  const PlanOption* chunks = FindPlanOption("tp_overlap");
  const bool named =
      std::ranges::any_of(space, [&](const auto& axis) { return FindPlanOption(axis.first) == chunks; });
  // Frameworks only switch them on and off.
  if (hides && !named && !FrameworkRules(problem.cluster.engine.name).empty())
    values.emplace_back(chunks->name, std::vector<std::string>{"1", fmt::to_string(kChunksOfSwitch)});
  return SearchSpace::Create(problem.model, problem.workload, RankCount(problem.cluster), values,
                             {.predict_only = options.predict_only,
                              .hides_collectives = hides,
                              .splits_itself = problem.cluster.engine.splits_by_weight,
                              .framework = FrameworkRules(problem.cluster.engine.name)});
}

absl::StatusOr<SearchLoop> SearchLoop::Create(const Problem& problem, const AxisValues& space,
                                              const SearchOptions& options, const PlanningWatch& watch,
                                              const std::optional<KnownOpTimes>& known) {
  AUTOCFG_RETURN_IF_ERROR(Validate(problem));
  AUTOCFG_RETURN_IF_ERROR(options.predict_only ? CheckPredictable(problem.model)
                                               : CheckEngineSupports(problem.model));
  for (const auto& [name, value] : {std::pair("max_trials", options.max_trials),
                                    std::pair("measurable_ranks", options.measurable_ranks)}) {
    if (value < 0)
      return absl::InvalidArgumentError(fmt::format("{} is {}; it must not be negative", name, value));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckMemoryMargin(options.memory_margin));
  AUTOCFG_ASSIGN_OR_RETURN(SearchSpace plans, PlannedSpace(problem, space, options));

  auto state = std::make_unique<SearchState>();
  state->problem = problem;
  state->options = options;
  state->space = std::move(plans);
  if (options.exhaustive) {
    state->strategy = std::make_unique<ExhaustiveStrategy>(options.max_trials);
  } else {
    state->strategy = std::make_unique<RacingStrategy>(options.max_trials);
  }
  state->known = known;
  state->costs = known ? CalibratedCosts(*state, *known) : NominalCosts(*state);
  state->watch = watch;
  AUTOCFG_ASSIGN_OR_RETURN(state->feasible, state->FindFeasible(*state->costs));
  state->CountFeasible();
  if (state->feasible.plans.empty()) state->phase = SearchPhase::kDone;
  return SearchLoop(std::move(state));
}

std::string SearchLoop::LeftOut() const {
  const SearchState& s = *state_;
  const std::string most = fmt::format("the space has more plans than the {} that a search goes through",
                                       s.options.budget.PlansOf(s.problem.model.layers));
  constexpr std::string_view kNarrow = "name values with --space, such as mbs=1,2,4";
  if (const std::optional<MeshOptions>& at = s.feasible.cut_off_at)
    return fmt::format("{}: it was cut off at {}; {}", most, MeshText(*at, ", "), kNarrow);
  return "";
}

SearchPhase SearchLoop::phase() const { return state_->phase; }
const SearchCounts& SearchLoop::counts() const { return state_->counts; }
std::optional<ParallelPlan> SearchLoop::Smallest() const { return state_->feasible.smallest; }

std::vector<OpDesc> SearchLoop::CalibrationOps() const {
  const FeasiblePlans& feasible = state_->feasible;
  std::vector<ParallelPlan> plans;
  // Plans that differ in the order of their microbatches alone have the same ops.
  using Key = std::tuple<MeshOptions, LayerOptions, MessageOptions, StateOptions>;
  std::set<Key> seen;
  const auto add_choice = [&](const PlanChoice& choice) {
    ParallelPlan plan = feasible.table.Unpack(choice.plan);
    const auto add = [&] {
      if (seen.insert({plan.mesh(), plan.layer(), plan.messages(), plan.states()}).second)
        plans.push_back(plan);
    };
    add();
    // With the calibrated memory, it may fit only if it recomputes.
    if (!state_->space.DerivesRecompute()) return;
    for (const SearchSpace::RecomputeValue& parts : state_->space.PartChoices(plan.attention)) {
      parts.SetIn(plan);
      add();
    }
    SearchSpace::RecomputeValue{.mode = Recompute::kFull}.SetIn(plan);
    add();
  };
  for (const FeasiblePlan& plan : feasible.plans) {
    add_choice(plan.choice);
    for (const PlanChoice& other : feasible.OthersOf(plan)) add_choice(other);
  }
  return ListCalibrationOps(state_->problem.model, state_->problem.workload, plans);
}

absl::Status SearchLoop::SetCalibration(const OpTimes& times, std::int64_t device_overhead_bytes) {
  for (const OpTime& m : times.measured()) {
    if (!(m.seconds > 0) || !std::isfinite(m.seconds)) {
      return absl::InvalidArgumentError(
          fmt::format("calibration: {} took {} s; times must be positive", ToString(m.op), m.seconds));
    }
  }
  return SetCalibration(std::make_shared<const OpTimes>(times), device_overhead_bytes);
}

absl::Status SearchLoop::SetCalibration(std::shared_ptr<const OpTimeModel> times,
                                        std::int64_t device_overhead_bytes) {
  SearchState& s = *state_;
  if (s.phase != SearchPhase::kCalibrating) {
    return absl::FailedPreconditionError(
        fmt::format("the search is {}; it accepts no calibration", Name(s.phase)));
  }
  if (device_overhead_bytes < 0) {
    return absl::InvalidArgumentError(
        fmt::format("device overhead is {} bytes; it must not be negative", device_overhead_bytes));
  }
  const bool found =
      s.known && s.known->times == times && s.known->device_overhead_bytes == device_overhead_bytes;
  if (!found) {
    // The plans so far and the caches of their costs go first: with the new ones they would take twice the
    // memory.
    s.feasible = FeasiblePlans();
    s.costs = CalibratedCosts(s, {std::move(times), device_overhead_bytes});
    AUTOCFG_ASSIGN_OR_RETURN(s.feasible, s.FindFeasible(*s.costs));
  }
  // Where nothing is measured, most plans need no time.
  const bool lazy = s.options.predict_only && s.costs->knows_every_op();
  absl::StatusOr<TimedPlans> timed = PredictTimes(*s.costs, s.feasible, s.watch, lazy ? &s.times : nullptr);
  absl::Status status = timed.status();
  // The front is part of most answers, and its times may take long: here the watch is asked.
  if (status.ok()) status = s.times.TimeFront(*s.costs, s.feasible, s.space, s.watch);
  if (!status.ok()) {
    if (found) return status;
    // Finds them again, for another try.
    s.feasible = FeasiblePlans();
    s.known = std::nullopt;
    s.costs = NominalCosts(s);
    AUTOCFG_ASSIGN_OR_RETURN(s.feasible, s.FindFeasible(*s.costs));
    return status;
  }
  s.timed = *std::move(timed);
  s.calibrated = true;
  s.CountFeasible();
  s.phase = s.feasible.plans.empty() || s.options.predict_only ? SearchPhase::kDone : SearchPhase::kMeasuring;
  if (s.phase == SearchPhase::kMeasuring) s.MakeCandidates();
  s.Recalibrate();
  s.Advance();
  return absl::OkStatus();
}

std::vector<TrialRequest> SearchLoop::Next() {
  SearchState& s = *state_;
  std::vector<TrialRequest> requests;
  for (const auto& [i, repeat] : s.drawn) {
    const CandidatePlan& c = s.candidates[i];
    std::optional<SliceCoordinates> slice;
    if (s.IsSlice(c.plan)) {
      slice = ChooseSlice(*s.costs, c.plan);
    } else {
      s.PredictHiddenComm(i);  // to be compared with what is measured
    }
    const std::optional<SearchState::Doubted>& doubted = s.records[i].doubted;
    requests.push_back({c.plan, repeat, s.records[i].announced, slice,
                        doubted ? std::optional(doubted->repeat) : std::nullopt});
    s.asked.emplace(i, repeat);
  }
  s.drawn.clear();
  return requests;
}

absl::Status SearchLoop::Observe(const ParallelPlan& plan, std::int64_t repeat, TrialOutcome outcome,
                                 const Sample& sample) {
  SearchState& s = *state_;
  const auto is_it = [&](const auto& trial) {
    return trial.second == repeat && s.candidates[trial.first].plan == plan;
  };
  const auto drawn = std::find_if(s.drawn.begin(), s.drawn.end(), is_it);  // a replay may skip calls of Next
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
    case TrialOutcome::kMeasured:
      if (!sample.slice) s.PredictHiddenComm(i);  // unless Next did
      s.Measured(i, repeat, sample);
      break;
    case TrialOutcome::kOutOfMemory:
      s.Fail(i, "measured_out_of_memory");
      s.Deepen(i);
      break;
    case TrialOutcome::kFailed: s.Fail(i, "failed"); break;
    case TrialOutcome::kTimedOut: s.Fail(i, "timed_out"); break;
    case TrialOutcome::kLost: s.Lost(i, "lost"); break;
  }
  // Also in the middle of a round, and late, after Stop: shown predictions rest on all that is known.
  s.Recalibrate();
  s.Advance();
  return absl::OkStatus();
}

void SearchLoop::Stop() {
  state_->drawn.clear();
  state_->phase = SearchPhase::kDone;
}

std::vector<RankedPlan> SearchLoop::Ranking(std::size_t limit) const { return RankPlans(*state_, limit); }

std::vector<RankedPlan> SearchLoop::MemoryFront(std::size_t limit) const {
  return state_->calibrated ? autocfg::MemoryFront(*state_, limit) : std::vector<RankedPlan>();
}

std::optional<OptionEffect> SearchLoop::MattersMost() const {
  SearchState& s = *state_;
  if (!s.calibrated) return std::nullopt;
  const std::vector<RankedPlan> best = Ranking(1);
  if (best.empty()) return std::nullopt;
  // A plan that was measured as a whole takes what was measured.
  std::map<ParallelPlan, double> measured;
  std::vector<ParallelPlan> plans;
  for (std::size_t i = 0; i < s.candidates.size(); ++i) {
    const CandidatePlan& c = s.candidates[i];
    if (!c.measured_s || c.slice || c.failed) continue;
    measured.emplace(c.plan, *c.measured_s / s.records[i].raw.step_time_s);
    plans.push_back(c.plan);
  }
  return autocfg::MattersMost(
      *s.costs, s.feasible, best.front().plan,
      [&](const ParallelPlan& plan) {
        if (s.counts.measured == 0) return 1.0;
        if (const auto found = measured.find(plan); found != measured.end()) return found->second;
        return std::exp(s.recalibration.For(plan, s.costs->Estimate(plan).breakdown).log_mean);
      },
      s.times, plans);
}

double SearchLoop::UnmeasuredDeviceSeconds() const { return autocfg::UnmeasuredDeviceSeconds(*state_); }

std::optional<double> SearchLoop::ChanceOfBetter() const {
  const SearchState& s = *state_;
  if (s.counts.measured == 0) return std::nullopt;
  return s.strategy->ChanceOfBetter(s.candidates, RecalibratedChances(s));
}

std::int64_t SearchLoop::PlansLeft() const {
  const SearchState& s = *state_;
  return s.phase != SearchPhase::kDone || s.options.predict_only
             ? 0
             : s.strategy->PlansLeft(s.candidates, RecalibratedChances(s));
}

std::int64_t SearchLoop::TrialsLeft() const {
  const SearchState& s = *state_;
  if (s.phase == SearchPhase::kDone || s.options.predict_only) return 0;
  const auto outstanding = static_cast<std::int64_t>(s.drawn.size() + s.asked.size());
  return std::max(outstanding, s.strategy->TrialsLeft(s.candidates, RecalibratedChances(s)));
}

}  // namespace autocfg
