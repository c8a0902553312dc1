// Drives the SearchLoop of a study with outcomes from a source. The order of outcomes is deterministic: whole
// rounds, by trial number. For a running study the source is the workers' reports, for a replay the store.
// Both use the same code, so a resumed or revisited study makes the same decisions. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "search/cost/cost_model.h"
#include "search/cost/op_times/op_time_model.h"
#include "search/planner/search_loop.h"
#include "server/store/store.h"
#include "server/studies/planning_gate.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_op_times.h"

namespace autocfg::server {

// Source of outcomes. An error ends Drive, which returns it.
class OutcomeSource {
 public:
  virtual ~OutcomeSource() = default;
  // Returns nullopt if there is no calibration; the search then stops.
  virtual absl::StatusOr<std::optional<Store::Calibration>> Calibrate(const SearchLoop& loop) = 0;
  // Returns the number of the trial that answers the request. Returns nullopt if there is none; the search
  // then stops after this round.
  virtual absl::StatusOr<std::optional<std::int64_t>> Ask(const TrialRequest& request) = 0;
  // Returns the trial once it has ended. Returns nullopt if it will not end; the search then stops after this
  // round.
  virtual absl::StatusOr<std::optional<v1::Trial>> Await(std::int64_t number) = 0;
  // Called before each round.
  virtual bool StopNow() = 0;
};

// Returns the CPU time that the calling thread has used. Thread-safe.
double ThreadCpuSeconds();

class StudySearch {
 public:
  // Enumerates the plans. Cancelled once the terms' watch says no, here or in Drive.
  static absl::StatusOr<StudySearch> Create(const SearchProblem& problem, const PlanningTerms& terms = {});

  // Runs the search until it ends or the source stops it. InvalidArgument if an outcome is invalid.
  absl::Status Drive(OutcomeSource& source);

  const SearchLoop& loop() const { return loop_; }
  // Returns how many rounds of trials have begun.
  std::int64_t rounds() const { return rounds_; }
  v1::Counts Counts() const;
  // Returns the best plan so far; nullopt before the calibration, and if no plan is left.
  std::optional<v1::Candidate> Best() const;
  // Returns everything but the study's name and usage; exhaustive_device_s lacks the time that the study has
  // used. If the source stopped the search, `stopped` names the time budget; this is wrong for studies that
  // were paused or cancelled.
  v1::Recommendation Recommendation() const;
  // Explains why there is no best plan. Empty if there is one or it is not known yet.
  std::string NothingFits() const;
  // Returns "; of PLAN, WHY AND WHAT TO DO" about the first illegal plan of the space.
  std::string IllegalExample() const;

  // Estimates the wall seconds for TrialsLeft() trials from the mean of those so far; 0: unknown.
  double EtaSeconds() const;
  // CPU seconds spent on planning since the object was created.
  double plan_cpu_s() const { return plan_cpu_s_; }

 private:
  StudySearch(SearchProblem problem, PlanningTerms terms, SearchLoop loop,
              std::optional<StudyOpTimes> modelled, double plan_cpu_s);
  // Returns the op times for predictions: measured, modelled, or both. Returns null if the source has no
  // calibration. Sets the device overhead.
  absl::StatusOr<std::shared_ptr<const OpTimeModel>> OpTimesFrom(OutcomeSource& source);
  absl::Status Observe(const TrialRequest& request, const v1::Trial& trial);
  v1::Candidate CandidateOf(const RankedPlan& ranked) const;

  SearchProblem problem_;
  PlanningTerms terms_;
  SearchLoop loop_;
  std::optional<StudyOpTimes> modelled_;  // op times that need no calibration
  std::shared_ptr<CostModel>
      described_;  // supplies the intervals of predictions by a cluster's figures alone
  bool calibrated_ = false;
  bool stopped_ = false;  // by the source, not by the search itself
  std::int64_t device_overhead_bytes_ = 0;
  std::int64_t measured_op_times_ = 0, reused_op_times_ = 0, estimated_op_times_ = 0;
  // by plan text, then by repeat
  std::map<std::string, std::map<std::int64_t, v1::Measurement>> measured_;
  std::map<std::string, Prediction> before_;  // by plan text, before the plan's first trial
  std::int64_t rounds_ = 0;
  std::int64_t reused_trials_ = 0;
  double trial_wall_s_ = 0;
  std::int64_t trials_timed_ = 0;
  double plan_cpu_s_ = 0;
};

// Outcomes that are already in the store, for studies that nobody runs.
class StoredOutcomes final : public OutcomeSource {
 public:
  // Reads all trials. NotFound if the study does not exist.
  static absl::StatusOr<StoredOutcomes> Load(Store& store, std::int64_t study);

  absl::StatusOr<std::optional<Store::Calibration>> Calibrate(const SearchLoop& loop) override;
  absl::StatusOr<std::optional<std::int64_t>> Ask(const TrialRequest& request) override;
  absl::StatusOr<std::optional<v1::Trial>> Await(std::int64_t number) override;
  bool StopNow() override { return false; }

 private:
  std::optional<Store::Calibration> calibration_;
  std::map<std::int64_t, v1::Trial> trials_;
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> numbers_;  // by plan text and repeat
};

}  // namespace autocfg::server
