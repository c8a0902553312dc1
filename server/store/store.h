// What the coordinator keeps. Every implementation passes tests/conformance/store_suite.h. Thread-safe. Time is given in by the caller as
// Unix seconds (clocks are injected).
//
// Writes that belong together are one call and one transaction; a call that returns OK has been made durable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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
};

class Store {
 public:
  virtual ~Store() = default;

  // Studies. Idempotent by request_id: the same id returns the study made first; with another specification AlreadyExists.
  virtual absl::StatusOr<autocfg::v1::Study> CreateStudy(const std::string& request_id, const autocfg::v1::Study& study,
                                                         double now_s) = 0;
  virtual absl::StatusOr<autocfg::v1::Study> GetStudy(std::int64_t id) = 0;  // NotFound
  // Newest first; `before` = 0 starts at the newest.
  virtual absl::StatusOr<std::vector<autocfg::v1::Study>> ListStudies(std::int64_t before, int limit) = 0;
  // The newest unfinished study (created, running, paused) of this fingerprint, if any.
  virtual absl::StatusOr<std::optional<autocfg::v1::Study>> FindUnfinished(const std::string& fingerprint) = 0;
  // Replaces what may change: state, message, counts, phase, eta, best, end time. Refuses to leave an end state (FailedPrecondition).
  virtual absl::Status UpdateStudy(const autocfg::v1::Study& study) = 0;
  // FailedPrecondition while it runs.
  virtual absl::Status DeleteStudy(std::int64_t id) = 0;

  // Adds a trial in state QUEUED and its job. The trial's number is the study's next, and is set in the answer's name. Unique per study by
  // (plan, repeat): the same again returns the one there.
  virtual absl::StatusOr<autocfg::v1::Trial> EnqueueTrial(std::int64_t study, const autocfg::v1::Trial& trial,
                                                          const autocfg::v1::Job& job, std::int64_t max_attempts,
                                                          double now_s) = 0;
  virtual absl::Status EnqueueCalibration(std::int64_t study, const autocfg::v1::Job& job, std::int64_t max_attempts,
                                          double now_s) = 0;
  virtual absl::StatusOr<autocfg::v1::Trial> GetTrial(std::int64_t study, std::int64_t number) = 0;  // NotFound
  // Ascending by number, after `after`, with attempts and measurement.
  virtual absl::StatusOr<std::vector<autocfg::v1::Trial>> ListTrials(std::int64_t study, std::int64_t after, int limit) = 0;
  // The study's calibration once reported.
  struct Calibration {
    autocfg::v1::CalibrateResult result;
    std::int64_t device_overhead_bytes = 0;
  };
  virtual absl::StatusOr<std::optional<Calibration>> GetCalibration(std::int64_t study) = 0;
  // The state of the calibration job: QUEUED, RUNNING, MEASURED, FAILED, ...; UNSPECIFIED when there is none. With the last message.
  virtual absl::StatusOr<std::pair<autocfg::v1::TrialState, std::string>> CalibrationState(std::int64_t study) = 0;
  // Trials and calibration of the study that are queued or running become CANCELLED; leases on them say CANCEL on renewal.
  virtual absl::Status CancelJobs(std::int64_t study, double now_s) = 0;

  // Workers. A new boot_id ends the leases of the one before (their attempts are LOST) and raises the epoch.
  virtual absl::StatusOr<std::int64_t> RegisterWorker(const autocfg::v1::RegisterWorkerRequest& request, double now_s) = 0;
  virtual absl::Status DeregisterWorker(const std::string& worker, std::int64_t session_epoch, double now_s) = 0;

  // Takes the oldest queued job of a running study that needs at most the worker's slots, and leases it, in one statement. Empty when
  // there is none; FailedPrecondition when the epoch is not the worker's current one.
  virtual absl::StatusOr<std::optional<Lease>> LeaseJob(const std::string& worker, std::int64_t session_epoch, double now_s,
                                                        double duration_s) = 0;
  // CONTINUE, or CANCEL when the job has been cancelled; FailedPrecondition when the lease is not this worker's any more.
  virtual absl::StatusOr<autocfg::v1::LeaseCommand> RenewLease(const std::string& worker, std::int64_t session_epoch,
                                                               const std::string& lease_id, std::int64_t fencing_token,
                                                               double now_s, double duration_s) = 0;
  // Attempts whose lease has run out become LOST; their jobs are queued again, or LOST when no attempt is left. Returns how many.
  virtual absl::StatusOr<int> ExpireLeases(double now_s) = 0;

  // Trial, attempt and measurement in one transaction under the fencing token. Idempotent by request_id. FailedPrecondition for a late, duplicate or
  // foreign report, which is recorded as refused.
  virtual absl::Status Report(const struct Report& report, double now_s) = 0;
  virtual absl::StatusOr<std::int64_t> RefusedReports() = 0;
  virtual absl::Status AppendLog(const std::string& lease_id, std::int64_t fencing_token, const std::string& text) = 0;

  // Rises with every change of a study or its trials: what WatchStudy's cursor is made of.
  virtual absl::StatusOr<std::int64_t> ChangeCursor(std::int64_t study) = 0;
};

}  // namespace autocfg
