// One runner's work on one study: from its row in the store to its end, or until the study is no longer
// RUNNING or the notifier is closed. Not thread-safe; made, run and dropped on the runner's thread.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/clock.h"
#include "server/sched/notifier.h"
#include "server/search_problem.h"
#include "server/store/store.h"
#include "server/study_search.h"

namespace autocfg {

// Registered, and heard of lately.
using WorkersAtWork = std::function<absl::StatusOr<std::vector<WorkerRecord>>()>;

// Called by a run, on its thread.
struct StudyRunEvents {
  std::function<void()> begins;                            // on a study that is RUNNING
  std::function<void(const v1::Recommendation&)> publish;  // what is known, whenever that changes
  std::function<void()> got_on;  // all that was to be stored is, and workers are waited for; often
};

class StudyRun final : private OutcomeSource {
 public:
  // Once `outdated` is set, an outcome that the run has gone through is another now.
  StudyRun(Store& store, Notifier& notifier, const Clock& clock, const WorkersAtWork& workers,
           std::int64_t study, StudyRunEvents events, const std::atomic<bool>& outdated);

  // OK: the study has reached an end state. Cancelled: it is not RUNNING any more, the notifier is closed, or
  // the run is outdated. Otherwise the store failed, and the study is left as it was.
  absl::Status Run();

 private:
  absl::Status Search();
  absl::StatusOr<std::optional<Store::Calibration>> Calibrate(const SearchLoop& loop) override;
  // The study's calibration, where it is there and all of its ops are known; else it is dropped.
  absl::StatusOr<std::optional<Store::Calibration>> StoredCalibration();
  // Queues the calibration, of those ops whose times no earlier study has left.
  absl::Status QueueCalibration(const SearchLoop& loop);
  // What earlier studies have left for the job; such ops are taken out of it.
  absl::StatusOr<Store::Calibration> TakeKnown(v1::Job& job);
  absl::StatusOr<std::optional<std::int64_t>> Ask(const TrialRequest& request) override;
  absl::StatusOr<std::optional<v1::Trial>> Await(std::int64_t number) override;
  bool StopNow() override { return budget_spent_ || BudgetLeft() <= 0; }

  // Remembers that it was the store that failed.
  absl::Status Failed(absl::Status status);
  double BudgetLeft() const;  // seconds; infinite where there is no budget
  // Waits for the store to change. Cancelled as Run. Cancels the study's jobs once the budget is spent.
  absl::Status Wait(std::uint64_t version);
  absl::Status CheckRunning();
  absl::Status SaveProgress(const std::string& phase);
  absl::Status Finish(v1::StudyState state, const std::string& message);
  // Leaves the study to whoever resumes it; Cancelled.
  absl::Status Pause(const std::string& message);
  absl::Status Modify(const std::function<absl::Status(v1::Study&)>& edit);

  Store& store_;
  Notifier& notifier_;
  const Clock& clock_;
  const WorkersAtWork& workers_;
  const std::int64_t study_;
  const StudyRunEvents events_;
  const std::atomic<bool>& outdated_;

  std::optional<SearchProblem> problem_;
  std::optional<StudySearch> search_;
  double started_s_ = 0;
  double used_before_s_ = 0;  // wall seconds of earlier runs
  double saved_wall_s_ = 0;   // of this run
  double saved_cpu_s_ = 0;
  bool budget_spent_ = false;
  absl::Status store_error_;
};

}  // namespace autocfg
