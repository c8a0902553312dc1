// What a report says of a study, gathered from the store: the answer, the plans, the trials, the timelines of
// the best plans, the bill. Predictions are computed again from the study's specification and calibration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "proto/answer/answer.h"
#include "proto/convert/step_timeline.h"
#include "search/planner/planning.h"
#include "search/planner/search_loop.h"
#include "search/predict/pipeline_trace.h"
#include "server/store/store.h"

namespace autocfg::server {

// The most plans that a report shows, the fastest ones, and with them those of the Pareto front.
inline constexpr std::size_t kMostReportPlans = 10'000;

// A step of a plan as one of its trials recorded it.
struct MeasuredTimeline {
  std::string left_out;           // why there are no rows; empty if there are
  std::int64_t trial = 0;         // number
  std::vector<TimelineRow> rows;  // in order of time; of all pipeline ranks
};

// The step of a plan, by pipeline rank.
struct PlanTimeline {
  ParallelPlan plan;
  std::string too_large;                     // why there is no trace; empty if there is one
  PipelineTrace trace;                       // predicted
  std::optional<MeasuredTimeline> measured;  // none: the plan was not measured
};

struct StudyReport {
  bool from_file = false;  // of a search, not of a study
  v1::Study study;
  SearchAnswer answer;
  std::vector<v1::Trial> trials;
  std::vector<RankedPlan> plans;        // as SearchLoop::Ranking, then those of the front that it lacks
  std::int64_t plans_in_all = 0;        // that fit
  std::vector<PlanTimeline> timelines;  // of the best plan and of the runner-up
};

// Replays the study's search with its stored outcomes. FailedPrecondition: the study was not started.
// Cancelled once `watch` says no. Other errors: those of the store and the specification.
absl::StatusOr<StudyReport> GatherReport(Store& store, std::int64_t study, const PlanningWatch& watch = {},
                                         std::size_t most_plans = kMostReportPlans);

// Returns the report of an answer alone: without trials and timelines, and with its candidates as plans.
// InvalidArgument: a plan is invalid.
absl::StatusOr<StudyReport> ReportOf(SearchAnswer answer);

}  // namespace autocfg::server
