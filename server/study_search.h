// A study's search: the SearchLoop, fed by a source of outcomes in an order that depends on nothing but the
// outcomes (whole rounds, by the number of the trial). The source is a worker's reports while the study runs,
// and the store alone when it is replayed; the rest is the same code, so a study that is resumed or looked at
// later decides as the live one did. Not thread-safe.
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
#include "search/cost/op_time_model.h"
#include "search/planner/search_loop.h"
#include "server/search_problem.h"
#include "server/store/store.h"

namespace autocfg {

// Where outcomes come from. An error ends the drive and is its answer.
class OutcomeSource {
 public:
  virtual ~OutcomeSource() = default;
  // Empty: there is none, and the search stops.
  virtual absl::StatusOr<std::optional<Store::Calibration>> Calibrate(const SearchLoop& loop) = 0;
  // The number of the trial that answers a request; empty: there is none, and the search stops after this
  // round.
  virtual absl::StatusOr<std::optional<std::int64_t>> Ask(const TrialRequest& request) = 0;
  // The trial once it has ended; empty: it will not, and the search stops after this round.
  virtual absl::StatusOr<std::optional<v1::Trial>> Await(std::int64_t number) = 0;
  // Asked before each round.
  virtual bool StopNow() = 0;
};

class StudySearch {
 public:
  static absl::StatusOr<StudySearch> Create(const SearchProblem& problem);

  // To the end, or until the source stops it. InvalidArgument where an outcome makes no sense.
  absl::Status Drive(OutcomeSource& source);

  const SearchLoop& loop() const { return loop_; }
  v1::Counts Counts() const;
  // The best plan so far; empty before the calibration and when nothing is left.
  std::optional<v1::Candidate> Best() const;
  // All but the study's name and usage; exhaustive_device_s lacks what the study has used. Where the source
  // stopped the search it is said to be the time budget that did, which of a study that was paused or
  // cancelled is not so.
  v1::Recommendation Recommendation() const;
  // Why there is no best plan; empty when there is one or nobody knows yet.
  std::string NothingFits() const;

  // Wall seconds until TrialsLeft() trials have run, from the mean of those so far; 0: not known.
  double EtaSeconds() const;
  // CPU seconds of this thread's planning since the object was made.
  double plan_cpu_s() const { return plan_cpu_s_; }

 private:
  StudySearch(SearchProblem problem, SearchLoop loop, double plan_cpu_s);
  // What plans are predicted with: measured, modelled, or both; null where the source has no calibration.
  // Sets the device overhead.
  absl::StatusOr<std::shared_ptr<const OpTimeModel>> OpTimesFrom(OutcomeSource& source);
  absl::Status Observe(const TrialRequest& request, const v1::Trial& trial);
  v1::Candidate CandidateOf(const RankedPlan& ranked) const;

  SearchProblem problem_;
  SearchLoop loop_;
  std::shared_ptr<CostModel> unmeasured_;  // where no measurement stands behind predictions: their intervals'
  bool calibrated_ = false;
  bool stopped_ = false;  // the source ended it, not its own judgement
  std::int64_t device_overhead_bytes_ = 0;
  std::int64_t reused_op_times_ = 0;
  std::map<std::string, std::vector<v1::Measurement>> measured_;  // by plan text
  double trial_wall_s_ = 0;
  std::int64_t trials_timed_ = 0;
  double plan_cpu_s_ = 0;
};

// Outcomes that are in the store, and no others: for studies that nobody works on.
class StoredOutcomes final : public OutcomeSource {
 public:
  // Reads all trials. NotFound.
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

}  // namespace autocfg
