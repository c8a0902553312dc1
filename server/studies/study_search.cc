#include "server/studies/study_search.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/answer/answer.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "proto/merge_results.h"
#include "search/plan/plan_text.h"
#include "search/planner/plans/distinct_plans.h"
#include "search/planner/rejected_plans.h"
#include "search/predict/predict_plan.h"
#include "search/predict/prediction_interval.h"
#include "search/space/search_space.h"
#include "server/names/names.h"
#include "server/studies/trial_job.h"

namespace autocfg::server {
namespace {

constexpr std::size_t kRunnersUp = 10;
constexpr std::size_t kRankedAtFirst = 2 * kRunnersUp;  // of which those are chosen
constexpr std::size_t kFrontPlans = 20;
constexpr int kTrialsPerRead = 500;  // trials per read of the store

// Adds the CPU time that this thread spends in a scope to a counter, in seconds.
class ThreadCpuTimer {
 public:
  explicit ThreadCpuTimer(double& total) : total_(total), start_(ThreadCpuSeconds()) {}
  ~ThreadCpuTimer() { total_ += ThreadCpuSeconds() - start_; }
  ThreadCpuTimer(const ThreadCpuTimer&) = delete;
  ThreadCpuTimer& operator=(const ThreadCpuTimer&) = delete;

 private:
  double& total_;
  double start_;
};

v1::OptionEffect EffectOf(const OptionEffect& effect, const ParallelPlan& best) {
  v1::OptionEffect message;
  message.set_option(std::string(effect.option->name));
  message.set_chosen(effect.option->print(best));
  message.set_instead(effect.option->print(effect.instead));
  message.set_costs(effect.costs);
  message.set_because(effect.because);
  message.set_only_this_changed(effect.only_this_changed);
  *message.mutable_plan() = ToProto(effect.instead);
  if (effect.alone) {
    message.set_costs_alone(effect.costs_alone);
    *message.mutable_plan_alone() = ToProto(*effect.alone);
  }
  return message;
}

// Returns a place in the gate of the terms, if they have one. Cancelled once their watch says no.
absl::StatusOr<std::optional<PlanningGate::Place>> EnterGate(const PlanningTerms& terms) {
  if (terms.gate == nullptr) return std::nullopt;
  std::optional<PlanningGate::Place> place = terms.gate->Enter(terms.watch, terms.owner);
  if (!place) return PlanningStopped({});
  return place;
}

}  // namespace

double ThreadCpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

StudySearch::StudySearch(SearchProblem problem, PlanningTerms terms, SearchLoop loop,
                         std::optional<StudyOpTimes> modelled, double plan_cpu_s)
    : problem_(std::move(problem)),
      terms_(std::move(terms)),
      loop_(std::move(loop)),
      modelled_(std::move(modelled)),
      plan_cpu_s_(plan_cpu_s) {}

absl::StatusOr<StudySearch> StudySearch::Create(const SearchProblem& problem, const PlanningTerms& terms) {
  double cpu_s = 0;
  const auto place = EnterGate(terms);
  if (!place.ok()) return place.status();
  std::optional<StudyOpTimes> modelled;
  if (!NeedsCalibration(problem)) {
    // An error is that of an invalid cluster, which SearchLoop::Create reports.
    if (auto times = OpTimesOf(problem, std::nullopt); times.ok()) modelled = *std::move(times);
  }
  std::optional<KnownOpTimes> known;
  if (modelled) known = {modelled->times, modelled->device_overhead_bytes};
  AUTOCFG_ASSIGN_OR_RETURN(auto loop, [&] {
    const ThreadCpuTimer timer(cpu_s);
    return SearchLoop::Create(problem, problem.space, problem.options, terms.watch, known);
  }());
  return StudySearch(problem, terms, std::move(loop), std::move(modelled), cpu_s);
}

absl::Status StudySearch::Observe(const TrialRequest& request, const v1::Trial& trial) {
  const std::optional<TrialOutcome> outcome = FromProto(trial.state());
  if (!outcome) return absl::InternalError(fmt::format("{} has not ended", trial.name()));
  Sample sample;
  if (*outcome == TrialOutcome::kMeasured) {
    sample = FromProto(trial.measured());
    measured_[trial.plan_text()][request.repeat] = trial.measured();
    if (!trial.reused_from().empty()) ++reused_trials_;
    if (!trial.attempts().empty()) {
      const v1::Attempt& attempt = *trial.attempts().rbegin();
      trial_wall_s_ += attempt.end_time_s() - attempt.start_time_s();
      ++trials_timed_;
    }
  }
  const ThreadCpuTimer timer(plan_cpu_s_);
  return loop_.Observe(request.plan, request.repeat, *outcome, sample);
}

absl::StatusOr<std::shared_ptr<const OpTimeModel>> StudySearch::OpTimesFrom(OutcomeSource& source) {
  std::optional<Store::Calibration> calibration;
  if (NeedsCalibration(problem_)) {
    AUTOCFG_ASSIGN_OR_RETURN(calibration, source.Calibrate(loop_));
  }
  AUTOCFG_ASSIGN_OR_RETURN(auto known, modelled_ ? absl::StatusOr<std::optional<StudyOpTimes>>(modelled_)
                                                 : OpTimesOf(problem_, calibration));
  if (!known.has_value()) return nullptr;
  device_overhead_bytes_ = known->device_overhead_bytes;
  reused_op_times_ = known->reused;
  measured_op_times_ = known->measured;
  if (calibration)
    estimated_op_times_ =
        CalibrationJob(problem_, loop_.CalibrationOps()).calibrate().ops_size() - measured_op_times_;
  if (!NeedsCalibration(problem_)) {
    described_ = std::make_shared<CostModel>(problem_, known->times);
  }
  return known->times;
}

absl::Status StudySearch::Drive(OutcomeSource& source) {
  if (loop_.phase() == SearchPhase::kCalibrating) {
    AUTOCFG_ASSIGN_OR_RETURN(auto times, OpTimesFrom(source));
    if (times == nullptr) {
      loop_.Stop();
      return absl::OkStatus();
    }
    const auto place = EnterGate(terms_);
    if (!place.ok()) return place.status();
    const ThreadCpuTimer timer(plan_cpu_s_);
    AUTOCFG_RETURN_IF_ERROR(loop_.SetCalibration(std::move(times), device_overhead_bytes_));
    calibrated_ = true;
  }

  while (loop_.phase() != SearchPhase::kDone && !source.StopNow()) {
    const std::vector<TrialRequest> requests = [&] {
      const ThreadCpuTimer timer(plan_cpu_s_);
      return loop_.Next();
    }();
    if (requests.empty()) return absl::InternalError("the planner waits for trials, but none is in flight");
    ++rounds_;
    bool stopped = false;
    std::vector<std::pair<std::int64_t, const TrialRequest*>> round;
    for (const TrialRequest& request : requests) {
      before_.try_emplace(PlanText(request.plan), request.predicted);
      AUTOCFG_ASSIGN_OR_RETURN(const auto number, source.Ask(request));
      if (number.has_value()) {
        round.emplace_back(*number, &request);
      } else {
        stopped = true;
      }
    }
    std::sort(round.begin(), round.end());
    for (const auto& [number, request] : round) {
      AUTOCFG_ASSIGN_OR_RETURN(const auto trial, source.Await(number));
      // A cancelled trial says nothing about its plan: the search was stopped.
      if (!trial.has_value() || trial->state() == v1::TRIAL_STATE_CANCELLED) {
        stopped = true;
        continue;
      }
      AUTOCFG_RETURN_IF_ERROR(Observe(*request, *trial));
    }
    if (stopped) break;
  }
  if (loop_.phase() != SearchPhase::kDone) {
    stopped_ = true;
    loop_.Stop();
  }
  return absl::OkStatus();
}

v1::Counts StudySearch::Counts() const { return ToProto(loop_.counts()); }

v1::Candidate StudySearch::CandidateOf(const RankedPlan& ranked) const {
  v1::Candidate candidate;
  *candidate.mutable_plan() = ToProto(ranked.plan);
  candidate.set_plan_text(PlanText(ranked.plan));
  const auto message = [&](Prediction predicted) {
    if (described_ != nullptr) SetDescribedInterval(predicted, *described_, ranked.plan);
    return ToProto(predicted);
  };
  if (ranked.median_step_time_s) {
    *candidate.mutable_predicted() = message(before_.at(candidate.plan_text()));
    *candidate.mutable_corrected() = message(ranked.predicted);
  } else {
    *candidate.mutable_predicted() = message(ranked.predicted);
  }
  const auto measured = measured_.find(candidate.plan_text());
  if (measured == measured_.end() || ranked.trials.empty()) return candidate;
  std::vector<v1::Measurement> counted;
  for (const std::int64_t repeat : ranked.trials) counted.push_back(measured->second.at(repeat));
  *candidate.mutable_measured() = PoolTrials(counted);
  return candidate;
}

std::optional<v1::Candidate> StudySearch::Best() const {
  if (!calibrated_) return std::nullopt;
  const std::vector<RankedPlan> ranking = loop_.Ranking(1);
  if (ranking.empty()) return std::nullopt;
  return CandidateOf(ranking.front());
}

v1::Recommendation StudySearch::Recommendation() const {
  v1::Recommendation answer;
  *answer.mutable_counts() = Counts();
  answer.set_reused_op_times(reused_op_times_);
  answer.set_reused_trials(reused_trials_);
  answer.set_measured_op_times(measured_op_times_);
  answer.set_estimated_op_times(estimated_op_times_);
  answer.set_nothing_fits(NothingFits());
  answer.set_left_out(loop_.LeftOut());
  answer.set_memory_margin(problem_.options.memory_margin);
  if (!calibrated_) return answer;
  std::vector<RankedPlan> ranking;
  std::vector<std::size_t> distinct;
  // Most plans are not alike, and ranking more of them takes time.
  for (std::size_t most = kRankedAtFirst + static_cast<std::size_t>(loop_.counts().measured);; most *= 2) {
    ranking = loop_.Ranking(most);
    std::vector<ParallelPlan> plans;
    plans.reserve(ranking.size());
    for (const RankedPlan& ranked : ranking) plans.push_back(ranked.plan);
    distinct = DistinctPlans(plans, 1 + kRunnersUp);
    if (distinct.size() > kRunnersUp || ranking.size() < most) break;
  }
  std::vector<bool> shown(ranking.size());
  for (const std::size_t i : distinct) {
    *(i == 0 ? answer.mutable_best() : answer.add_runners_up()) = CandidateOf(ranking[i]);
    shown[i] = true;
  }
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    if (shown[i] || !ranking[i].median_step_time_s) continue;
    answer.set_measured_not_shown(answer.measured_not_shown() + 1);
    if (IsTied(CandidateOf(ranking[i]), answer.best()))
      answer.set_tied_not_shown(answer.tied_not_shown() + 1);
  }
  if (answer.has_best()) answer.set_provenance(std::string(Provenance(answer.best())));
  if (answer.has_best() && loop_.phase() == SearchPhase::kDone) {
    if (const std::optional<OptionEffect> effect = loop_.MattersMost())
      *answer.mutable_matters_most() = EffectOf(*effect, loop_.Ranking(1).front().plan);
    for (const RankedPlan& ranked : loop_.MemoryFront(kFrontPlans))
      *answer.add_pareto_memory() = CandidateOf(ranked);
  }
  // the caller adds the device time used so far
  answer.set_exhaustive_device_s(loop_.UnmeasuredDeviceSeconds());
  if (const std::optional<double> chance = loop_.ChanceOfBetter()) answer.set_chance_of_better(*chance);
  if (const std::int64_t left = loop_.PlansLeft(); left > 0) {
    answer.set_stopped(stopped_ ? "time_budget" : "max_trials");
    answer.set_plans_left(left);
  }
  return answer;
}

std::string StudySearch::IllegalExample() const {
  const auto space = PlannedSpace(problem_, problem_.space, problem_.options);
  if (!space.ok()) return "";
  CostModel costs(problem_, OpTimes());
  std::string example;
  const auto first = [&](const RejectedPlan& rejected) {
    example = fmt::format("; of {}, {}", ShortPlanText(rejected.plan), rejected.detail);
    return false;
  };
  // Cancelled: the first one was enough.
  (void)ForEachRejected(*space, costs, problem_.options.budget, 1, first);
  return example;
}

std::string StudySearch::NothingFits() const {
  const SearchCounts& counts = loop_.counts();
  if (counts.predicted > 0) {
    if (!calibrated_ || loop_.phase() != SearchPhase::kDone || !loop_.Ranking(1).empty()) return "";
    if (counts.predicted == 1)
      return "the only plan that should fit could not run; the messages of its trials say why";
    return fmt::format("none of the {} plans that should fit could run; the messages of its trials say why",
                       counts.predicted);
  }
  if (counts.enumerated == 0) return "the space contains no plan that uses all ranks";
  std::string reasons;
  for (const auto& [reason, count] : counts.rejected)
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", reason, count);
  if (counts.out_of_memory == 0)
    return fmt::format("none of the {} plans is legal: {}{}", counts.enumerated, reasons, IllegalExample());
  // Names the plan that comes closest, and why it does not fit.
  const std::optional<ParallelPlan> smallest = loop_.Smallest();
  if (!smallest) return fmt::format("none of the {} plans fits: {}", counts.enumerated, reasons);
  const CostModel costs(problem_, OpTimes(), device_overhead_bytes_, problem_.options.memory_margin);
  return fmt::format("none of the {} legal plans fits in memory; the smallest is {}: {}",
                     counts.out_of_memory, PlanText(*smallest), costs.PredictMemory(*smallest).reason);
}

double StudySearch::EtaSeconds() const {
  if (trials_timed_ == 0) return 0;
  return trial_wall_s_ / static_cast<double>(trials_timed_) * static_cast<double>(loop_.TrialsLeft());
}

absl::StatusOr<StoredOutcomes> StoredOutcomes::Load(Store& store, std::int64_t study) {
  StoredOutcomes outcomes;
  AUTOCFG_ASSIGN_OR_RETURN(outcomes.calibration_, store.GetCalibration(study));
  std::int64_t after = 0;
  while (true) {
    AUTOCFG_ASSIGN_OR_RETURN(auto trials, store.ListTrials(study, after, kTrialsPerRead));
    if (trials.empty()) return outcomes;
    for (v1::Trial& trial : trials) {
      AUTOCFG_ASSIGN_OR_RETURN(const auto id, ParseTrialName(trial.name()));
      after = id.number;
      outcomes.numbers_[{trial.plan_text(), trial.repeat()}] = after;
      outcomes.trials_[after] = std::move(trial);
    }
  }
}

absl::StatusOr<std::optional<Store::Calibration>> StoredOutcomes::Calibrate(const SearchLoop& /*loop*/) {
  return calibration_;
}

absl::StatusOr<std::optional<std::int64_t>> StoredOutcomes::Ask(const TrialRequest& request) {
  const auto found = numbers_.find({PlanText(request.plan), request.repeat});
  if (found == numbers_.end()) return std::optional<std::int64_t>();
  return std::optional<std::int64_t>(found->second);
}

absl::StatusOr<std::optional<v1::Trial>> StoredOutcomes::Await(std::int64_t number) {
  const v1::Trial& trial = trials_.at(number);
  if (!IsEnd(trial.state())) return std::optional<v1::Trial>();
  return std::optional<v1::Trial>(trial);
}

}  // namespace autocfg::server
