#include "server/report/study_report.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "proto/convert/result_convert.h"
#include "proto/convert/spec_convert.h"
#include "search/plan/plan_text.h"
#include "server/names/names.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_op_times.h"
#include "server/studies/study_search.h"
#include "server/studies/study_states.h"

namespace autocfg::server {
namespace {

constexpr std::size_t kFrontPlansAdded = 200;  // of the front, beside the fastest plans
constexpr int kTrialsAtOnce = 500;
constexpr int kTimelines = 2;

absl::StatusOr<std::vector<v1::Trial>> TrialsOf(Store& store, std::int64_t study) {
  std::vector<v1::Trial> all;
  for (std::int64_t after = 0;;) {
    AUTOCFG_ASSIGN_OR_RETURN(auto page, store.ListTrials(study, after, kTrialsAtOnce));
    if (page.empty()) return all;
    AUTOCFG_ASSIGN_OR_RETURN(const auto last, ParseTrialName(page.back().name()));
    after = last.number;
    for (v1::Trial& trial : page) all.push_back(std::move(trial));
  }
}

// Returns the ranking's first plans, then plans of the front that are not among them.
std::vector<RankedPlan> ShownPlans(const SearchLoop& loop, std::size_t most) {
  std::vector<RankedPlan> plans = loop.Ranking(most);
  if (static_cast<std::int64_t>(plans.size()) >= loop.counts().predicted) return plans;
  std::set<std::string> shown;
  for (const RankedPlan& ranked : plans) shown.insert(PlanText(ranked.plan));
  for (RankedPlan& ranked : loop.MemoryFront(kFrontPlansAdded)) {
    if (shown.insert(PlanText(ranked.plan)).second) plans.push_back(std::move(ranked));
  }
  return plans;
}

absl::StatusOr<PlanTimeline> TimelineOf(CostModel& costs, const v1::ParallelPlan& message) {
  AUTOCFG_ASSIGN_OR_RETURN(auto plan, FromProto(message));
  PlanTimeline timeline{.plan = std::move(plan), .too_large = {}, .trace = {}, .measured = {}};
  auto trace = TracePipeline(costs, timeline.plan);
  if (trace.ok()) {
    timeline.trace = *std::move(trace);
  } else {
    timeline.too_large = std::string(trace.status().message());
  }
  return timeline;
}

// Returns whether a trial of the plan counts in its measured time. One that is doubted does not.
bool Counts(const StudyReport& report, const ParallelPlan& plan, std::int64_t repeat) {
  const auto ranked = std::find_if(report.plans.begin(), report.plans.end(),
                                   [&](const RankedPlan& one) { return one.plan == plan; });
  return ranked != report.plans.end() &&
         std::find(ranked->trials.begin(), ranked->trials.end(), repeat) != ranked->trials.end();
}

// Returns the recorded step of a measured plan.
absl::StatusOr<MeasuredTimeline> MeasuredTimelineOf(Store& store, std::int64_t study,
                                                    const StudyReport& report, const ParallelPlan& plan,
                                                    const v1::Measurement& measured) {
  MeasuredTimeline timeline;
  if (measured.slice()) {
    timeline.left_out = "one rank of the plan ran alone";
    return timeline;
  }
  if (!measured.engine().empty()) {
    timeline.left_out = fmt::format("engine {} does not tell of the parts of a step", measured.engine());
    return timeline;
  }
  AUTOCFG_ASSIGN_OR_RETURN(const auto found, store.FindTimeline(study, PlanText(plan)));
  if (!found) {
    timeline.left_out = fmt::format(
        "none is kept: its worker recorded none, the study was imported, or {} other plans are as "
        "fast",
        kTimelinePlans);
    return timeline;
  }
  const Store::TrialTimeline& kept = *found;
  timeline.trial = kept.trial;
  timeline.left_out = kept.timeline.left_out();
  if (!Counts(report, plan, kept.repeat)) timeline.left_out = fmt::format("trial {} is doubted", kept.trial);
  if (!timeline.left_out.empty()) return timeline;
  for (const v1::TimelineRow& message : kept.timeline.rows()) {
    AUTOCFG_ASSIGN_OR_RETURN(auto row, FromProto(message));
    timeline.rows.push_back(std::move(row));
  }
  return timeline;
}

// Adds the timelines of the best plan and of the runner-up. None before the calibration.
absl::Status AddTimelines(Store& store, std::int64_t study, const SearchProblem& problem,
                          StudyReport& report) {
  const v1::Recommendation& found = report.answer.found;
  if (!found.has_best()) return absl::OkStatus();
  AUTOCFG_ASSIGN_OR_RETURN(const auto calibration, store.GetCalibration(study));
  AUTOCFG_ASSIGN_OR_RETURN(const auto known, OpTimesOf(problem, calibration));
  if (!known.has_value()) return absl::OkStatus();
  CostModel costs(problem, known->times, known->device_overhead_bytes, problem.options.memory_margin);
  for (int i = 0; i < kTimelines && i <= found.runners_up_size(); ++i) {
    const v1::Candidate& candidate = i == 0 ? found.best() : found.runners_up(i - 1);
    AUTOCFG_ASSIGN_OR_RETURN(auto timeline, TimelineOf(costs, candidate.plan()));
    if (candidate.has_measured()) {
      AUTOCFG_ASSIGN_OR_RETURN(timeline.measured,
                               MeasuredTimelineOf(store, study, report, timeline.plan, candidate.measured()));
    }
    report.timelines.push_back(std::move(timeline));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StudyReport> GatherReport(Store& store, std::int64_t study, const PlanningWatch& watch,
                                         std::size_t most_plans) {
  StudyReport report;
  AUTOCFG_ASSIGN_OR_RETURN(report.study, store.GetStudy(study));
  if (report.study.state() == v1::STUDY_STATE_CREATED) {
    return absl::FailedPreconditionError(
        fmt::format("{} has not been started; start it before asking for its report", report.study.name()));
  }
  AUTOCFG_RETURN_IF_ERROR(CheckHasPlans(report.study));
  AUTOCFG_ASSIGN_OR_RETURN(const SearchProblem problem, ParseSearchSpec(report.study.spec()));
  SearchQuestion& question = report.answer.question;
  static_cast<Problem&>(question) = problem;
  question.device = problem.device;
  question.predict_only = problem.options.predict_only;
  AUTOCFG_ASSIGN_OR_RETURN(auto outcomes, StoredOutcomes::Load(store, study));
  AUTOCFG_ASSIGN_OR_RETURN(auto search, StudySearch::Create(problem, {.watch = watch}));
  AUTOCFG_RETURN_IF_ERROR(search.Drive(outcomes));
  v1::Recommendation& found = report.answer.found;
  found = search.Recommendation();
  if (report.study.state() != v1::STUDY_STATE_DONE) {  // the study may continue, or was cancelled
    found.clear_stopped();
    found.clear_plans_left();
  }
  report.plans_in_all = search.loop().counts().predicted;
  if (found.has_best()) report.plans = ShownPlans(search.loop(), most_plans);
  AUTOCFG_ASSIGN_OR_RETURN(report.trials, TrialsOf(store, study));
  AUTOCFG_ASSIGN_OR_RETURN(const auto usage, store.Usage(study));
  found.set_study(report.study.name());
  found.set_wall_s(usage.wall_s);
  found.set_plan_cpu_s(usage.plan_cpu_s);
  found.set_device_s(usage.device_s);
  found.set_exhaustive_device_s(usage.device_s + found.exhaustive_device_s());
  AUTOCFG_RETURN_IF_ERROR(AddTimelines(store, study, problem, report));
  return report;
}

absl::StatusOr<StudyReport> ReportOf(SearchAnswer answer) {
  StudyReport report;
  report.from_file = true;
  report.answer = std::move(answer);
  v1::Recommendation& found = report.answer.found;
  report.study.set_name(found.study());
  report.study.set_state(v1::STUDY_STATE_DONE);
  if (found.stopped() == "cancelled") report.study.set_state(v1::STUDY_STATE_CANCELLED);
  if (found.stopped() == "paused" || found.stopped() == "interrupted")
    report.study.set_state(v1::STUDY_STATE_PAUSED);
  if (report.study.state() != v1::STUDY_STATE_DONE) found.clear_stopped();
  for (int i = 0; i <= found.runners_up_size(); ++i) {
    const v1::Candidate& candidate = i == 0 ? found.best() : found.runners_up(i - 1);
    RankedPlan& ranked = report.plans.emplace_back();
    AUTOCFG_ASSIGN_OR_RETURN(ranked.plan, FromProto(candidate.plan()));
    ranked.predicted = FromProto(candidate.has_corrected() ? candidate.corrected() : candidate.predicted());
    ranked.slice = candidate.measured().slice();
    if (MeasuredWhole(candidate)) ranked.median_step_time_s = RankedSeconds(candidate);
  }
  report.plans_in_all = found.counts().predicted();
  return report;
}

}  // namespace autocfg::server
