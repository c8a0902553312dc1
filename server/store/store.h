// What the coordinator keeps. Every implementation passes tests/conformance/store_suite.h. Thread-safe. Time
// is given in by the caller as Unix seconds (clocks are injected).
//
// Writes that belong together are one call and one transaction; a call that returns OK has been made durable.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "autocfg/v1/worker_service.pb.h"

namespace autocfg {

struct TrialKey {
  std::int64_t study = 0;
  std::int64_t trial = 0;  // 0: the study's calibration
};

// A unit of work in the queue.
struct QueuedJob {
  TrialKey key;
  autocfg::v1::Job job;
  std::int64_t max_attempts = 2;
};

struct Lease {
  std::string lease_id;
  std::int64_t fencing_token = 0;
  std::int64_t attempt = 0;
  TrialKey key;
  autocfg::v1::Job job;
  double expires_s = 0;
};

struct Report {
  std::string worker;
  std::int64_t session_epoch = 0;
  std::string lease_id;
  std::int64_t fencing_token = 0;
  std::int64_t attempt = 0;
  std::string request_id;
  autocfg::v1::Outcome outcome = autocfg::v1::OUTCOME_UNSPECIFIED;
  std::string message;
  std::optional<autocfg::v1::Measurement> measurement;
  std::optional<autocfg::v1::CalibrateResult> calibration;
  std::int64_t device_overhead_bytes = 0;
  std::optional<autocfg::v1::MemoryBytes> out_of_memory;
};

// What goes with an edit of a study, in the same transaction.
struct StudyEdit {
  std::string
      request_id;  // not empty: a second edit with this id changes nothing and returns the study as it is
  double add_wall_s = 0;  // added to what the search of this study has used
  double add_plan_cpu_s = 0;
};

// What the search of a study has used, over all coordinators that ran it.
struct StudyUsage {
  double wall_s = 0;  // while a coordinator worked on it
  double plan_cpu_s = 0;
  double device_s = 0;  // ranks x wall seconds of all attempts that ended, the calibration's included
};

// What changed in a study after a cursor.
struct StudyChanges {
  std::int64_t cursor = 0;  // the study's, now
  autocfg::v1::Study study;
  std::vector<std::pair<std::int64_t, autocfg::v1::Trial>>
      trials;  // by the cursor of their last change, ascending
};

// DONE, FAILED or CANCELLED; MEASURED, INFEASIBLE, FAILED, TIMED_OUT, CANCELLED or LOST.
bool IsEnd(autocfg::v1::StudyState state);
bool IsEnd(autocfg::v1::TrialState state);

class Store {
 public:
  virtual ~Store() = default;

  // Called after each write that raised a change cursor (so: new work, new results, new states) and after
  // each that the storage failed, outside the store's lock, on the writing thread. Set it before the store is
  // shared between threads.
  virtual void OnChange(std::function<void()> listener) = 0;

  // Why the storage failed the last write that it was given (no room, no right, damage); OK once one has
  // succeeded again. Whoever waits for results looks here, since a report that could not be kept never shows.
  virtual absl::Status Health() = 0;

  // Studies. Idempotent by request_id: the same id returns the study made first; with another specification
  // AlreadyExists.
  virtual absl::StatusOr<autocfg::v1::Study> CreateStudy(const std::string& request_id,
                                                         const autocfg::v1::Study& study, double now_s) = 0;
  virtual absl::StatusOr<autocfg::v1::Study> GetStudy(std::int64_t id) = 0;  // NotFound
  // Newest first; `before` = 0 starts at the newest.
  virtual absl::StatusOr<std::vector<autocfg::v1::Study>> ListStudies(std::int64_t before, int limit) = 0;
  // The newest unfinished study (created, running, paused) of this fingerprint, if any.
  virtual absl::StatusOr<std::optional<autocfg::v1::Study>> FindUnfinished(
      const std::string& fingerprint) = 0;
  // Ascending by id.
  virtual absl::StatusOr<std::vector<std::int64_t>> StudiesInState(autocfg::v1::StudyState state) = 0;
  // Replaces what may change: state, message, counts, phase, eta, best, end time. Refuses to leave an end
  // state (FailedPrecondition). Entering an end state cancels the study's open jobs, as CancelJobs does, in
  // the same transaction.
  virtual absl::Status UpdateStudy(const autocfg::v1::Study& study) = 0;
  // Reads, edits and writes one study in one transaction, with the rules of UpdateStudy; an error of `edit`
  // is returned and nothing is written. `edit` must not call the store.
  virtual absl::StatusOr<autocfg::v1::Study> ModifyStudy(
      std::int64_t id, const std::function<absl::Status(autocfg::v1::Study&)>& edit,
      const StudyEdit& extra = {}) = 0;
  virtual absl::StatusOr<StudyUsage> Usage(std::int64_t id) = 0;
  // FailedPrecondition while it runs. Idempotent by request_id where one is given.
  virtual absl::Status DeleteStudy(std::int64_t id, const std::string& request_id = "") = 0;

  // Adds a trial in state QUEUED and its job. The trial's number is the study's next, and is set in the
  // answer's name. Unique per study by (plan, repeat): the same again returns the one there.
  virtual absl::StatusOr<autocfg::v1::Trial> EnqueueTrial(std::int64_t study, const autocfg::v1::Trial& trial,
                                                          const autocfg::v1::Job& job,
                                                          std::int64_t max_attempts, double now_s) = 0;
  virtual absl::Status EnqueueCalibration(std::int64_t study, const autocfg::v1::Job& job,
                                          std::int64_t max_attempts, double now_s) = 0;
  virtual absl::StatusOr<autocfg::v1::Trial> GetTrial(std::int64_t study,
                                                      std::int64_t number) = 0;  // NotFound
  // Ascending by number, after `after`, with attempts and measurement.
  virtual absl::StatusOr<std::vector<autocfg::v1::Trial>> ListTrials(std::int64_t study, std::int64_t after,
                                                                     int limit) = 0;
  // The study's calibration once reported.
  struct Calibration {
    autocfg::v1::CalibrateResult result;
    std::int64_t device_overhead_bytes = 0;
  };
  virtual absl::StatusOr<std::optional<Calibration>> GetCalibration(std::int64_t study) = 0;
  // The state of the calibration job: QUEUED, RUNNING, MEASURED, FAILED, ...; UNSPECIFIED when there is none.
  // With the last message.
  virtual absl::StatusOr<std::pair<autocfg::v1::TrialState, std::string>> CalibrationState(
      std::int64_t study) = 0;
  // Trials and calibration of the study that are queued or running become CANCELLED; leases on them say
  // CANCEL on renewal.
  virtual absl::Status CancelJobs(std::int64_t study, double now_s) = 0;

  // Workers. A new boot_id ends the leases of the one before (their attempts are LOST) and raises the epoch.
  virtual absl::StatusOr<std::int64_t> RegisterWorker(const autocfg::v1::RegisterWorkerRequest& request,
                                                      double now_s) = 0;
  virtual absl::Status DeregisterWorker(const std::string& worker, std::int64_t session_epoch,
                                        double now_s) = 0;

  // Takes the oldest queued job of a running study that needs at most the worker's free slots (those that its
  // running attempts leave), and leases it, in one statement. Empty when there is none; FailedPrecondition
  // when the epoch is not the worker's current one.
  virtual absl::StatusOr<std::optional<Lease>> LeaseJob(const std::string& worker, std::int64_t session_epoch,
                                                        double now_s, double duration_s) = 0;
  // CONTINUE, or CANCEL when the job has been cancelled; FailedPrecondition when the lease is not this
  // worker's any more.
  virtual absl::StatusOr<autocfg::v1::LeaseCommand> RenewLease(const std::string& worker,
                                                               std::int64_t session_epoch,
                                                               const std::string& lease_id,
                                                               std::int64_t fencing_token, double now_s,
                                                               double duration_s) = 0;
  // Attempts whose lease has run out become LOST; their jobs are queued again, or LOST when no attempt is
  // left. Returns how many.
  virtual absl::StatusOr<int> ExpireLeases(double now_s) = 0;

  // Trial, attempt and measurement in one transaction under the fencing token. Idempotent by request_id.
  // FailedPrecondition for a late, duplicate or foreign report, which is recorded as refused. A worker that
  // gives a job back unasked (CANCELLED, and nobody cancelled it) has it queued again, at no cost to its
  // bound of attempts; one that refuses it (REFUSED) as well, at the cost of one: the job is LOST when none is left.
  virtual absl::Status Report(const struct Report& report, double now_s) = 0;
  virtual absl::StatusOr<std::int64_t> RefusedReports() = 0;
  virtual absl::Status AppendLog(const std::string& lease_id, std::int64_t fencing_token,
                                 const std::string& text) = 0;

  // Rises with every change of a study or its trials: what WatchStudy's cursor is made of.
  virtual absl::StatusOr<std::int64_t> ChangeCursor(std::int64_t study) = 0;
  // The study and at most `limit` trials that changed after the cursor `after`, read at one instant.
  virtual absl::StatusOr<StudyChanges> ChangesAfter(std::int64_t study, std::int64_t after, int limit) = 0;
};

}  // namespace autocfg
