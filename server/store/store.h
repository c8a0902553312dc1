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

// A worker since its last start.
struct WorkerSession {
  std::string worker;
  std::int64_t epoch = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): false positive
  friend auto operator<=>(const WorkerSession&, const WorkerSession&) = default;
};

// A worker's right to run its share of an attempt at a job: all ranks of it, or where it spans workers a run
// of them.
struct Lease {
  WorkerSession session;
  std::string lease_id;
  std::int64_t fencing_token = 0;
  std::int64_t attempt = 0;
  TrialKey key;
  autocfg::v1::Job job;
  std::int32_t first_rank = 0;
  std::int32_t ranks = 0;
  std::int32_t workers = 1;  // that the attempt spans
  double expires_s = 0;
};

// What a lease is a share of.
struct ShareOfAttempt {
  std::int64_t job = 0;  // the row's id, so that (job, attempt) names the attempt
  std::int64_t attempt = 0;
  std::int32_t first_rank = 0;
  std::int32_t ranks = 0;
  std::int32_t job_ranks = 0;
  bool stopping = false;  // the attempt is broken or cancelled
};

// What LeaseJobs has decided.
struct Assignment {
  std::vector<Lease> leases;  // shares of one attempt stand together, by first_rank
  // Running studies whose oldest queued job no worker can take, and why, in a sentence for users.
  std::vector<std::pair<std::int64_t, std::string>> waiting;
};

// A lease that its worker did not keep.
struct EndedLease {
  WorkerSession session;
  std::string job;  // by name
  // The job's from there on: QUEUED again, an end state, or RUNNING until the attempt's other shares have
  // stopped.
  autocfg::v1::TrialState state = autocfg::v1::TRIAL_STATE_UNSPECIFIED;
};

// A worker as the store knows it; when it was last seen is not among that.
struct WorkerRecord {
  WorkerSession session;
  autocfg::v1::Inventory inventory;
  bool active = false;  // not deregistered
  bool draining = false;
  double registered_s = 0;
  std::int64_t ranks_in_use = 0;
  std::vector<std::string> jobs;  // by name
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
  autocfg::v1::FailureKind failure = autocfg::v1::FAILURE_KIND_UNSPECIFIED;
};

// What op times depend on beside the op, so that those of one study hold for another (op_times_key.h).
struct OpTimesKey {
  std::string device;  // the GPUs' names and their driver
  std::string build_id;
  std::int64_t ranks = 0;             // that ran each op at once
  std::int64_t ranks_per_device = 1;  // of these, at most
  std::int64_t workers = 1;           // that they were on
  // NOLINTNEXTLINE(modernize-use-nullptr): false positive
  friend auto operator<=>(const OpTimesKey&, const OpTimesKey&) = default;
};

// What goes with an edit of a study, in the same transaction.
struct StudyEdit {
  // Not empty: a second edit with this id changes nothing and returns the study as it is; of another study,
  // or by another verb, it is AlreadyExists.
  std::string request_id = {};
  std::string verb = {};  // what the request asks for: start, pause, ...
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
  // By the cursor of their last change, ascending.
  std::vector<std::pair<std::int64_t, autocfg::v1::Trial>> trials;
};

// DONE, FAILED or CANCELLED; MEASURED, INFEASIBLE, FAILED, TIMED_OUT, CANCELLED or LOST.
bool IsEnd(autocfg::v1::StudyState state);
bool IsEnd(autocfg::v1::TrialState state);

class Store {
 public:
  virtual ~Store() = default;

  // Called after each write that raised a change cursor (so: new work, new results, new states), that stops
  // leases, drains a worker or takes one away, and after each that the storage failed, outside the store's
  // lock, on the writing thread. Set it before the store is
  // shared between threads.
  virtual void OnChange(std::function<void()> listener) = 0;

  // Why the storage failed the last write that it was given (no room, no right, damage); OK once one has
  // succeeded again. Whoever waits for results looks here, since a report that could not be kept never shows.
  virtual absl::Status Health() = 0;

  // Studies. Idempotent by request_id: the same id returns the study made first; with another specification
  // AlreadyExists.
  virtual absl::StatusOr<autocfg::v1::Study> CreateStudy(const std::string& request_id,
                                                         const autocfg::v1::Study& study, double now_s) = 0;
  // As CreateStudy; where a study of this fingerprint is unfinished (created, running, paused), the newest
  // one is what the request made.
  virtual absl::StatusOr<autocfg::v1::Study> CreateOrReuseStudy(const std::string& request_id,
                                                                const autocfg::v1::Study& study,
                                                                double now_s) = 0;
  virtual absl::StatusOr<autocfg::v1::Study> GetStudy(std::int64_t id) = 0;  // NotFound
  // Newest first; `before` = 0 starts at the newest.
  virtual absl::StatusOr<std::vector<autocfg::v1::Study>> ListStudies(std::int64_t before, int limit) = 0;
  // Ascending by id.
  virtual absl::StatusOr<std::vector<std::int64_t>> StudiesInState(autocfg::v1::StudyState state) = 0;
  // Reads, edits and writes one study in one transaction: what may change, that is state, message, counts,
  // phase, eta, best and end time. Refuses to leave an end state (FailedPrecondition). Entering one cancels
  // the study's open jobs, as CancelJobs does. An error of `edit` is returned and nothing is written. `edit`
  // must not call the store.
  virtual absl::StatusOr<autocfg::v1::Study> ModifyStudy(
      std::int64_t id, const std::function<absl::Status(autocfg::v1::Study&)>& edit,
      const StudyEdit& extra = {}) = 0;
  virtual absl::StatusOr<StudyUsage> Usage(std::int64_t id) = 0;
  // With all that belongs to it, the request ids of its reports too. FailedPrecondition while it runs.
  // Idempotent by request_id where one is given.
  virtual absl::Status DeleteStudy(std::int64_t id, const std::string& request_id = "") = 0;

  // Adds a trial in state QUEUED and its job. The trial's number is the study's next, and is set in the
  // answer's name. Unique per study by (plan, repeat): the same again returns the one there.
  virtual absl::StatusOr<autocfg::v1::Trial> EnqueueTrial(std::int64_t study, const autocfg::v1::Trial& trial,
                                                          const autocfg::v1::Job& job,
                                                          std::int64_t max_attempts) = 0;
  struct Calibration {
    autocfg::v1::CalibrateResult result;
    std::int64_t device_overhead_bytes = 0;
    std::int64_t reused_ops = 0;  // of the result's, which an earlier study's calibration measured
  };
  // Queues the study's calibration where there is none, and anew, with a full bound of attempts, where it was
  // dropped or has ended LOST. `reused` are op times
  // that the job leaves out: they and what it measures become the study's calibration.
  virtual absl::Status EnqueueCalibration(std::int64_t study, const autocfg::v1::Job& job,
                                          std::int64_t max_attempts, const Calibration& reused) = 0;
  // Makes `reused` the study's calibration, without a job. Nothing where it has one.
  virtual absl::Status ReuseCalibration(std::int64_t study, const Calibration& reused) = 0;
  // Forgets the study's calibration, so that it can be measured anew.
  virtual absl::Status DropCalibration(std::int64_t study) = 0;
  // Of the spec's ops, those that a calibration on GPUs has measured under this key within at least the
  // spec's time budget, in their order, each with its newest time; and the most overhead that was
  // reported with any of these. Communication only where one calibration has timed all of it: its overhead
  // counts the communicators that it had. A calibration's times are kept where OpTimesKeyOf has a key for its
  // shares, and no other job ran on its workers meanwhile; those older than a year do not count.
  virtual absl::StatusOr<Calibration> FindOpTimes(const OpTimesKey& key,
                                                  const autocfg::v1::CalibrateSpec& spec, double now_s) = 0;
  virtual absl::StatusOr<autocfg::v1::Trial> GetTrial(std::int64_t study,
                                                      std::int64_t number) = 0;  // NotFound
  // Ascending by number, after `after`, with attempts and measurement.
  virtual absl::StatusOr<std::vector<autocfg::v1::Trial>> ListTrials(std::int64_t study, std::int64_t after,
                                                                     int limit) = 0;
  // The study's calibration once reported, or reused.
  virtual absl::StatusOr<std::optional<Calibration>> GetCalibration(std::int64_t study) = 0;
  // The state of the calibration job: QUEUED, RUNNING, MEASURED, FAILED, ...; UNSPECIFIED when there is none.
  // With the last message.
  virtual absl::StatusOr<std::pair<autocfg::v1::TrialState, std::string>> CalibrationState(
      std::int64_t study) = 0;
  // Trials and calibration of the study that are queued or running become CANCELLED; leases on them say
  // CANCEL on renewal.
  virtual absl::Status CancelJobs(std::int64_t study) = 0;

  // Queues a trial again that has ended FAILED, TIMED_OUT, CANCELLED or LOST, with a full bound of attempts;
  // its attempts so far stay. NotFound; FailedPrecondition in another state, or where the study has ended.
  // Idempotent by request_id.
  virtual absl::StatusOr<autocfg::v1::Trial> RetryTrial(std::int64_t study, std::int64_t number,
                                                        const std::string& request_id) = 0;

  // Workers. A new boot_id ends the leases of the one before (their attempts are LOST), raises the epoch and
  // ends a drain.
  virtual absl::StatusOr<std::int64_t> RegisterWorker(const autocfg::v1::RegisterWorkerRequest& request,
                                                      double now_s) = 0;
  // Idempotent while no other session follows. NotFound and FailedPrecondition as CheckSession.
  virtual absl::Status DeregisterWorker(const std::string& worker, std::int64_t session_epoch,
                                        double now_s) = 0;
  // NotFound: never registered, or deregistered; FailedPrecondition: another session is the current one.
  virtual absl::Status CheckSession(const WorkerSession& session) = 0;
  // No more jobs for it until it registers with a new boot_id. NotFound; FailedPrecondition where it has
  // deregistered. Idempotent by request_id: the same again changes nothing, whatever became of the worker,
  // and for another worker it is AlreadyExists. Returns whether the worker drains now.
  virtual absl::StatusOr<bool> DrainWorker(const std::string& worker, const std::string& request_id) = 0;
  // By name, after `after`; deregistered ones only where `gone`.
  virtual absl::StatusOr<std::vector<WorkerRecord>> ListWorkers(const std::string& after, int limit,
                                                                bool gone) = 0;
  virtual absl::StatusOr<WorkerRecord> GetWorker(const std::string& worker) = 0;  // NotFound

  // Gives queued jobs of running studies, oldest first, to the workers that wait, in one transaction; each of
  // `waiting` gets one lease at most.
  //   - A job goes to workers of its device kind (cpu jobs to cpu, cuda to cuda, paced to any) that are not
  //     draining.
  //   - One worker with as many free slots (those that its running shares leave) as the job has ranks takes
  //     all of it: that with the fewest. Where none has, as few waiting workers as will do take shares of it,
  //     those with the most free slots first: all of them or none.
  //   - A job whose fewer_ranks is set is never shared: where no worker takes all of it, the idle one with
  //     the most slots takes as many of its ranks; the lease's job then has that many.
  //   - Workers on the host (inventory.hostname, else the worker's name) of an attempt that was lost,
  //     refused, given back unasked or failed get it only where the others of `live` together have too few
  //     slots for it.
  //   - A job that `live` could take, were they idle, keeps later jobs from the workers that it could run on.
  // `live`: workers that are at work, those that wait among them. Sessions that are not current are passed
  // over.
  virtual absl::StatusOr<Assignment> LeaseJobs(const std::vector<WorkerSession>& waiting,
                                               const std::vector<WorkerSession>& live, double now_s,
                                               double duration_s) = 0;
  // A lease that never reached its worker ends; its attempt does not count, and its job is queued again (with
  // more than one share: once the others have stopped). Nothing where it is not held.
  virtual absl::Status ReturnLease(const std::string& lease_id, std::int64_t fencing_token, double now_s) = 0;
  // The same for all leases of the session that are not in `held`.
  virtual absl::Status KeepOnly(const WorkerSession& session, const std::vector<std::string>& held,
                                double now_s) = 0;
  // CONTINUE; CANCEL when the job has been cancelled or another share of the attempt has ended without a
  // result: the lease is not prolonged then, so that it runs out where the worker does not stop; DRAIN while
  // its worker drains. FailedPrecondition when the lease is not this worker's any more. A lease on a job with
  // a time limit is not prolonged beyond that and two minutes after it was given out: a worker that hangs
  // does not keep it.
  virtual absl::StatusOr<autocfg::v1::LeaseCommand> RenewLease(const std::string& worker,
                                                               std::int64_t session_epoch,
                                                               const std::string& lease_id,
                                                               std::int64_t fencing_token, double now_s,
                                                               double duration_s) = 0;
  // Leases that are held and whose renewal would answer CANCEL.
  virtual absl::StatusOr<std::vector<std::string>> LeasesToStop() = 0;
  // FailedPrecondition where the lease is not held.
  virtual absl::StatusOr<ShareOfAttempt> FindShare(const std::string& lease_id,
                                                   std::int64_t fencing_token) = 0;
  // Shares whose lease has run out are LOST; what follows for their attempts and jobs is in the same
  // transaction.
  virtual absl::StatusOr<std::vector<EndedLease>> ExpireLeases(double now_s) = 0;
  // The same for leases that could not be renewed, since no coordinator was there: their attempts are
  // withdrawn and do not count.
  virtual absl::StatusOr<std::vector<EndedLease>> WithdrawExpired(double now_s) = 0;
  // Ends the session's shares of attempts that span workers, as if they had run out.
  virtual absl::StatusOr<std::vector<EndedLease>> LoseGangShares(const WorkerSession& session,
                                                                 const std::string& message,
                                                                 double now_s) = 0;

  // An attempt ends when all its shares have. A share that ends without a result breaks it: the renewals of
  // the others say CANCEL. What an attempt came to is, of its shares' ends, the first in this order that
  // there is: OUT_OF_MEMORY; FAILED of its own; TIMED_OUT; FAILED by process; REFUSED; LOST; withdrawn (the
  // lease did not reach its worker, the worker was deregistered, or no coordinator was there: LOST too);
  // CANCELLED unasked; FAILED by a peer; CANCELLED after the attempt was told to stop; MEASURED, when the
  // shares' measurements become one: each step as long as its slowest share's, the worst memory, the sum of
  // device_s, median and interval anew; calibrations op by op (computing: the mean over ranks; communicating:
  // the slowest). FAILED by process or a peer, REFUSED, LOST and CANCELLED unasked queue the job again as
  // long as fewer than max_attempts ended so; then the trial is FAILED in the first case and LOST in the
  // others. Withdrawn queues it again at no cost. An attempt at a job that has been cancelled since, or asked
  // for anew, changes nothing but itself.
  //
  // Trial, attempt and measurement in one transaction under the fencing token. Idempotent by request_id.
  // FailedPrecondition for a late, duplicate or foreign report, and for other contents under a known
  // request_id: it is recorded as refused (the newest 10000 are kept);
  // InvalidArgument for a result of what its job did not ask for (report_fit.h), which leaves the lease. A
  // worker that gives a job back unasked (CANCELLED, and its attempt was not told to stop) or refuses it
  // (REFUSED) has it queued again, at the cost of one of its attempts; to deregister gives it back at no
  // cost.
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
