// One run of a study on a runner's thread. It ends when the study ends, is no longer RUNNING, or the notifier
// is closed. Not thread-safe; created, run and destroyed on the runner's thread.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/os/host.h"
#include "server/sched/notifier.h"
#include "server/store/store.h"
#include "server/studies/planning_gate.h"
#include "server/studies/search_problem.h"
#include "server/studies/study_search.h"

namespace autocfg::server {

// Returns the workers that are registered and take jobs (Presence::Seen).
using PresentWorkers = std::function<absl::StatusOr<std::vector<WorkerRecord>>()>;

// Callbacks of a run, called on its thread.
struct StudyRunEvents {
  std::function<void()> begins;                            // the run begins on a RUNNING study
  std::function<void(const v1::Recommendation&)> publish;  // the recommendation changed
  std::function<void()> got_on;  // all results are stored, and the run waits for workers; called often
};

class StudyRun final : private OutcomeSource {
 public:
  // `outdated` is set when the study may no longer be RUNNING, or an outcome that the run has already
  // processed has changed. It ends planning too.
  // `gate` bounds the studies that plan at once. A planning that takes this thread more than
  // `most_planning_s` of CPU time fails the study.
  StudyRun(Store& store, Notifier& notifier, PlanningGate& gate, const base::Clock& clock,
           const PresentWorkers& workers, std::int64_t study, StudyRunEvents events,
           const std::atomic<bool>& outdated, double most_planning_s);

  // Returns OK if the study reached an end state. Returns Cancelled if it is no longer RUNNING, the notifier
  // is closed, or the run is outdated. Other errors are the store's; the study is then unchanged.
  absl::Status Run();

 private:
  absl::Status Search();
  absl::StatusOr<std::optional<Store::Calibration>> Calibrate(const SearchLoop& loop) override;
  // Returns the study's calibration if it exists and all of its ops are known. Drops it if an op is unknown.
  absl::StatusOr<std::optional<Store::Calibration>> StoredCalibration();
  // Queues a calibration of the ops whose times no earlier study provides.
  absl::Status QueueCalibration(const SearchLoop& loop);
  // Queues the calibration if it is not there yet, and waits for it.
  absl::StatusOr<std::optional<Store::Calibration>> AwaitCalibration(const SearchLoop& loop);
  // Returns the op times that earlier studies provide for the job, and removes those ops from it.
  absl::StatusOr<Store::Calibration> TakeKnown(v1::Job& job);
  // Returns the trial with a measurement of an earlier study, or as it is already known. No value: there is
  // none.
  absl::StatusOr<std::optional<v1::Trial>> Reuse(const TrialRequest& request, const v1::Trial& trial,
                                                 const v1::Job& job);
  absl::StatusOr<std::optional<std::int64_t>> Ask(const TrialRequest& request) override;
  absl::StatusOr<std::optional<v1::Trial>> Await(std::int64_t number) override;
  bool StopNow() override { return budget_spent_ || BudgetLeft() <= 0; }

  // Decides whether planning goes on. Stores how far it came now and then.
  bool PlanOn(const PlanningProgress& progress);

  // Records and returns an error of the store.
  absl::Status RecordStoreError(absl::Status status);
  double BudgetLeft() const;  // seconds; infinite without a budget
  // Waits for the store to change. Returns Cancelled as Run does. Cancels the study's jobs once the budget is
  // spent.
  absl::Status Wait(std::uint64_t version);
  absl::Status CheckRunning();
  // Stores what has changed since the last time; if nothing has, only the used time, now and then.
  absl::Status SaveProgress(const std::string& phase);
  double SavePeriod() const;  // seconds between two saves if nothing else has changed
  absl::Status Finish(v1::StudyState state, const std::string& message);
  // Pauses the study until a user resumes it. Returns Cancelled.
  absl::Status Pause(const std::string& message);
  absl::Status Modify(const std::function<absl::Status(v1::Study&)>& edit);

  Store& store_;
  Notifier& notifier_;
  Notifier::Subscription changes_;
  PlanningGate& gate_;
  const base::Clock& clock_;
  const PresentWorkers& workers_;
  const std::int64_t study_;
  std::string trace_parent_;  // of the study; its jobs belong to the same trace
  const StudyRunEvents events_;
  const std::atomic<bool>& outdated_;
  const double most_planning_s_;

  std::string owner_;
  std::optional<SearchProblem> problem_;
  std::optional<StudySearch> search_;
  std::map<std::pair<std::string, std::int64_t>, std::int64_t>
      asked_;  // trial numbers by plan text and repeat
  double started_s_ = 0;
  double used_before_s_ = 0;  // wall seconds of earlier runs
  double saved_wall_s_ = 0;   // of this run; already stored
  double saved_cpu_s_ = 0;
  std::optional<v1::Study> saved_;  // the progress that is stored, without times
  double planning_saved_s_ = 0;
  bool budget_spent_ = false;
  bool planning_over_budget_ = false;
  bool planning_over_limit_ = false;
  double planning_from_cpu_s_ = 0;  // of this thread when it last waited for workers, or began
  absl::Status store_error_;
};

}  // namespace autocfg::server
