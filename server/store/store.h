// The coordinator's persistent state; server/store/sqlite implements it. Tests of the contract:
// tests/conformance/store_*_suite.h. Thread-safe. Callers pass the time as Unix seconds, because clocks are
// injected.
//
// Writes that belong together are one call and one transaction. Data is durable when a call returns OK,
// except renewals of leases.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/study_service.pb.h"
#include "autocfg/v1/worker_service.pb.h"
#include "server/store/records.h"
#include "server/store/retention.h"

namespace autocfg::server {

// The states that a study does not leave.
inline constexpr std::array kStudyEndStates = {autocfg::v1::STUDY_STATE_DONE, autocfg::v1::STUDY_STATE_FAILED,
                                               autocfg::v1::STUDY_STATE_CANCELLED};

// End states: kStudyEndStates; MEASURED, INFEASIBLE, FAILED, TIMED_OUT, CANCELLED or LOST.
bool IsEnd(autocfg::v1::StudyState state);
bool IsEnd(autocfg::v1::TrialState state);

// The error of a write for which the storage has no room: ResourceExhausted, and IsNoSpace. Services answer
// it as UNAVAILABLE.
absl::Status NoSpace(const std::string& message);
bool IsNoSpace(const absl::Status& status);

// For how long a worker must stay that runs a calibration without a limit.
inline constexpr double kCalibrationNeedsS = 60;

// Of how many plans of a study the timeline of a step is kept: of the fastest ones.
inline constexpr int kTimelinePlans = 8;

class Store {
 public:
  class Impl;  // server/store/sqlite/sqlite_store_impl.h
  explicit Store(std::unique_ptr<Impl> impl);
  ~Store();

  // Sets a listener, called after each write that raised a change cursor (new work, results or states), stops
  // leases, or drains or removes a worker, and after each write that failed in the storage. Called on the
  // writing thread, outside the store's lock. Set it before the store is shared between threads.
  void OnChange(std::function<void(const StoreChange&)> listener);

  // Sets a listener, called after each write that changed something, and after each that failed in the
  // storage. On the writing thread, outside the store's lock. Set it before the store is shared between
  // threads.
  void OnCommit(std::function<void(const StoreCommit&)> listener);
  absl::StatusOr<StoreFigures> Figures();

  // Returns why the last write failed in the storage (no space, no permission, damage); OK once a write has
  // succeeded again. Code that waits for results must check it, because a report that was not stored never
  // shows.
  absl::Status Health();

  // Studies. Idempotent by request_id: the same ID returns the study created first; AlreadyExists if its
  // specification differs. ResourceExhausted, but not IsNoSpace: a limit of its owner.
  absl::StatusOr<autocfg::v1::Study> CreateStudy(const std::string& request_id,
                                                 const autocfg::v1::Study& study, double now_s);
  // Same as CreateStudy, but if unfinished studies (created, running, paused) have this fingerprint, returns
  // the newest of them as the result of the request.
  absl::StatusOr<autocfg::v1::Study> CreateOrReuseStudy(const std::string& request_id,
                                                        const autocfg::v1::Study& study, double now_s);
  // Returns the study that CreateStudy or CreateOrReuseStudy returned for this ID; no value if they returned
  // none, and if it was deleted.
  absl::StatusOr<std::optional<autocfg::v1::Study>> CreatedBy(const std::string& request_id);
  absl::StatusOr<autocfg::v1::Study> GetStudy(std::int64_t id);  // NotFound
  // Newest first. `before` = 0 starts at the newest.
  absl::StatusOr<std::vector<autocfg::v1::Study>> ListStudies(std::int64_t before, const ListLimit& limit);
  // Ascending by ID.
  absl::StatusOr<std::vector<std::int64_t>> StudiesInState(autocfg::v1::StudyState state);
  // Reads, edits and writes one study in one transaction. Name, spec, fingerprint, owner, create time and,
  // unless `extra` has another one, weight keep their values. FailedPrecondition if the study is in an end
  // state and the edit leaves it. Entering an end state cancels the study's open jobs, as CancelJobs does.
  // If `edit` returns an error, returns it and writes nothing. `edit` must not call the store.
  absl::StatusOr<autocfg::v1::Study> ModifyStudy(std::int64_t id,
                                                 const std::function<absl::Status(autocfg::v1::Study&)>& edit,
                                                 const StudyEdit& extra = {});
  absl::StatusOr<StudyUsage> Usage(std::int64_t id);
  // Deletes the study and everything that belongs to it, including the request IDs of its reports.
  // FailedPrecondition while it is running. Idempotent by request_id if one is given.
  absl::Status DeleteStudy(std::int64_t id, const std::string& request_id = "");

  // Adds a trial in state QUEUED and its job. Assigns the study's next trial number and sets it in the
  // returned name. Unique per study by (plan, repeat): a repeated call returns the existing trial.
  absl::StatusOr<autocfg::v1::Trial> EnqueueTrial(std::int64_t study, const autocfg::v1::Trial& trial,
                                                  const autocfg::v1::Job& job, std::int64_t max_attempts);
  // Adds the trial in state MEASURED, with the measurement of a trial of another study, which `reused_from`
  // names, if there is one to reuse: of the same plan and work (WorkOf), measured under the key (as
  // FindOpTimes) with at least as many steps, while no other job ran on its workers. Its result was not
  // doubted (no job avoids the trial), and is not reused by this study already. Of several, one of the same
  // repeat, then the newest. No value, and no effect: there is none. Unique by (plan, repeat), as
  // EnqueueTrial. Only jobs of the built-in engine.
  absl::StatusOr<std::optional<autocfg::v1::Trial>> ReuseTrial(std::int64_t study,
                                                               const autocfg::v1::Trial& trial,
                                                               const autocfg::v1::Job& job,
                                                               const OpTimesKey& key, double now_s);
  struct Calibration {
    autocfg::v1::CalibrateResult result;
    std::int64_t reused_ops = 0;  // ops of the result whose times come from an earlier study's calibration
  };
  // Queues the study's calibration if there is none. Queues it again, with all attempts, if it was dropped or
  // ended LOST. `reused` are op times that the job omits; together with its results they become the study's
  // calibration.
  absl::Status EnqueueCalibration(std::int64_t study, const autocfg::v1::Job& job, std::int64_t max_attempts,
                                  const Calibration& reused);
  // Makes `reused` the study's calibration without a job. No effect if it has one.
  absl::Status ReuseCalibration(std::int64_t study, const Calibration& reused);
  // Deletes the study's calibration, so that it can be measured again.
  absl::Status DropCalibration(std::int64_t study);
  // Finds reusable op times. Returns those of the spec's ops that a calibration measured under this key
  // within at least the spec's time budget, in the spec's order, each with its newest time; and the largest
  // overhead reported with any of them. Communication ops are included only if one calibration timed all of
  // them, because its overhead includes its communicators. A calibration's times are kept if OpTimesKeyOf has
  // a key for its shares and no other job ran on its workers meanwhile. Ignores times older than key.kept_s.
  absl::StatusOr<Calibration> FindOpTimes(const OpTimesKey& key, const autocfg::v1::CalibrateSpec& spec,
                                          double now_s);
  // Keeps op times of a calibration that is still running, as if it had ended with them, so that later
  // attempts and calibrations need not time them again. Compute ops only: see FindOpTimes. Keeps nothing of a
  // job that several workers share. FailedPrecondition if the lease is not held. InvalidArgument if it is no
  // calibration's, or does not ask for these ops.
  absl::Status KeepTimedOps(const std::string& lease_id, std::int64_t fencing_token,
                            const autocfg::v1::CalibrateResult& timed, double now_s);
  // Returns all op times under the key that are not older than key.kept_s, whichever calibrations measured
  // them and in whatever time, and the largest overhead reported with any of them. In the order of their ops.
  absl::StatusOr<Calibration> AllOpTimes(const OpTimesKey& key, double now_s);
  absl::StatusOr<autocfg::v1::Trial> GetTrial(std::int64_t study,
                                              std::int64_t number);  // NotFound
  // Returns the last `most_bytes` of an attempt's log, from the beginning of a line if one begins in them.
  // `attempt`: 0 is the last one. `number` 0: of the study's calibration. NotFound: no such trial or attempt.
  absl::StatusOr<autocfg::v1::TrialLog> TrialLog(std::int64_t study, std::int64_t number,
                                                 std::int64_t attempt, std::size_t most_bytes);
  // Ascending by number, after `after`, with attempts and measurement.
  absl::StatusOr<std::vector<autocfg::v1::Trial>> ListTrials(std::int64_t study, std::int64_t after,
                                                             const ListLimit& limit);
  struct TrialTimeline {
    std::int64_t trial = 0;  // number
    std::int64_t repeat = 0;
    autocfg::v1::StepTimeline timeline;
  };
  // Returns the timeline of the newest trial of the plan that was measured with one. No value if there is
  // none, or if kTimelinePlans other plans with timelines were faster, each by its slowest trial.
  absl::StatusOr<std::optional<TrialTimeline>> FindTimeline(std::int64_t study, const std::string& plan_text);
  // Returns the study's calibration once reported or reused.
  absl::StatusOr<std::optional<Calibration>> GetCalibration(std::int64_t study);
  // Returns the state of the calibration job and its last message; UNSPECIFIED if there is no job.
  absl::StatusOr<std::pair<autocfg::v1::TrialState, std::string>> CalibrationState(std::int64_t study);
  // Cancels the study's queued and running trials and calibration. Renewals of their leases answer CANCEL.
  absl::Status CancelJobs(std::int64_t study);

  // Queues a trial again that ended FAILED, TIMED_OUT, CANCELLED or LOST, with all attempts; its earlier
  // attempts remain. NotFound. FailedPrecondition if it is in another state or the study has ended.
  // Idempotent by request_id.
  absl::StatusOr<autocfg::v1::Trial> RetryTrial(std::int64_t study, std::int64_t number,
                                                const std::string& request_id);

  // Workers. A new boot_id ends the leases of the previous session (their attempts are LOST), raises the
  // epoch and ends a drain.
  absl::StatusOr<std::int64_t> RegisterWorker(const autocfg::v1::RegisterWorkerRequest& request,
                                              double now_s);
  // Idempotent until another session begins. NotFound and FailedPrecondition as CheckSession.
  absl::Status DeregisterWorker(const std::string& worker, std::int64_t session_epoch, double now_s);
  // NotFound: never registered, deregistered, or registered after the backup from which this store was
  // restored. FailedPrecondition: a later session is current.
  absl::Status CheckSession(const WorkerSession& session);
  // Gives the worker no more jobs until it registers with a new boot_id. NotFound. FailedPrecondition if it
  // is deregistered. Idempotent by request_id: a repeated call changes nothing, whatever happened to the
  // worker since; AlreadyExists for another worker. Returns whether the worker drains now.
  absl::StatusOr<bool> DrainWorker(const std::string& worker, const std::string& request_id);
  // Says when the session takes no more jobs; empty: no such time is known. Kept in memory until the worker
  // deregisters or another session begins: a worker says it again whenever it asks for work. NotFound and
  // FailedPrecondition as CheckSession.
  absl::Status SetLeaving(const WorkerSession& session, std::optional<double> leaves_s);
  // Ascending by name, after `after`; includes deregistered workers only if `gone` is set.
  absl::StatusOr<std::vector<WorkerRecord>> ListWorkers(const std::string& after, const ListLimit& limit,
                                                        bool gone);
  absl::StatusOr<WorkerRecord> GetWorker(const std::string& worker);  // NotFound

  // Tokens of callers (server/access/token_table.h). AlreadyExists: the name is taken.
  absl::Status AddToken(const TokenRecord& record);
  absl::StatusOr<std::vector<TokenRecord>> ListTokens();  // ascending by name
  absl::Status RemoveToken(const std::string& name);      // NotFound

  // Assigns queued jobs of running studies to waiting workers, in one transaction, in the order of fair
  // shares (server/store/turns/fair_share.h); jobs of one study oldest first. Each of `waiting` gets at most
  // one lease.
  //
  // - A calibration's second attempt and later ones leave out the ops whose times are kept (KeepTimedOps).
  // - A job runs on workers of its device kind (cpu on cpu, cuda on cuda, paced on any) that do not drain.
  // - A job runs on workers that take jobs for at least its time limit (SetLeaving); a job without one, on
  //   workers that do not leave. A calibration needs little time (kCalibrationNeedsS), or the limit of its
  //   spec: what it has timed is kept.
  // - If a worker has enough free slots (not used by its running shares) for all ranks, one such worker runs
  //   the job: the one with the fewest. Otherwise as few waiting workers as possible share it, those with the
  //   most free slots first: all ranks or none.
  // - A job with fewer_ranks is never shared. If no worker can run all its ranks, the idle worker with the
  //   most slots runs as many as it can; the lease's job then has that many ranks.
  // - Workers on the host (inventory.hostname, else the worker's name) of an attempt that was lost, refused,
  //   given back unasked or failed, or of any attempt of the trial Job.avoids_trial, get the job only if the
  //   other workers of `live` together have too few slots.
  // - An owner's jobs have no more ranks at once than its limit. A job that waits for that is not passed by
  //   later ones of the owner, and keeps no slots.
  // - A job that `live` could run if idle waits. If `keeps` is set, the first such job keeps slots from later
  //   ones that would not end before it can start, by their time limits (KeepSlots in placement.h).
  //
  // `live`: the workers that take jobs, including the waiting ones. Ignores sessions that are not current.
  absl::StatusOr<Assignment> LeaseJobs(const std::vector<WorkerSession>& waiting,
                                       const std::vector<WorkerSession>& live, double now_s,
                                       double duration_s, bool keeps = true);
  // Returns the running studies whose oldest queued job LeaseJobs with these workers would not assign. A
  // study with a running job is on the way: it is returned only if nobody can run its next one. Reads the
  // whole queue.
  absl::StatusOr<std::vector<WaitingStudy>> WaitingStudies(const std::vector<WorkerSession>& waiting,
                                                           const std::vector<WorkerSession>& live,
                                                           double now_s, bool keeps = true);
  // Ends a lease that never reached its worker. The attempt does not count, and its job is queued again (with
  // more than one share: once the others have stopped). No effect if the lease is not held.
  absl::Status ReturnLease(const std::string& lease_id, std::int64_t fencing_token, double now_s);
  // Same for all leases of the session that are not in `held`.
  absl::Status KeepOnly(const WorkerSession& session, const std::vector<std::string>& held, double now_s);
  // Renews a lease, which never ends earlier for it.
  //
  // - CANCEL: the job was cancelled, or another share of the attempt ended without a result. The lease is
  //   then not extended, so that it expires if the worker does not stop.
  // - DRAIN: its worker drains.
  // - CONTINUE: otherwise.
  //
  // Nothing is written: the new end is kept in memory, and stored by ExpireLeases, WithdrawExpired or
  // GrantAnew at the latest when the stored one has passed. A store that was opened anew may know an earlier
  // end than its workers do: grant the leases anew before any expires.
  //
  // FailedPrecondition if the worker does not hold the lease any more. A lease on a job with a time limit is
  // never extended beyond that limit and two minutes after it was granted, so that a hanging worker cannot
  // keep it.
  absl::StatusOr<autocfg::v1::LeaseCommand> RenewLease(const std::string& worker, std::int64_t session_epoch,
                                                       const std::string& lease_id,
                                                       std::int64_t fencing_token, double now_s,
                                                       double duration_s);
  // Grants all held leases anew: each lasts `duration_s` from now, no more and no less, and what was left of
  // the time beyond that, for which it may be renewed, stays. For when no worker could renew (no coordinator
  // ran, or it was stopped), and for a clock that another coordinator has set. Returns how many there are.
  absl::StatusOr<int> GrantAnew(double now_s, double duration_s);
  // Returns the held leases whose renewal would answer CANCEL.
  absl::StatusOr<std::vector<std::string>> LeasesToStop();
  // Returns the names of the workers that hold leases of the study's jobs.
  absl::StatusOr<std::vector<std::string>> WorkersOn(std::int64_t study);
  // FailedPrecondition if the lease is not held.
  absl::StatusOr<ShareOfAttempt> FindShare(const std::string& lease_id, std::int64_t fencing_token);
  // Keeps a complete gathering of the share's attempt, with the values of all its shares, in place of the one
  // before. It is kept until the attempt ends; no effect if it has ended.
  absl::Status KeepGathering(const ShareOfAttempt& share, const KeptGathering& gathering);
  // Returns the gathering that is kept of the share's attempt, if any.
  absl::StatusOr<std::optional<KeptGathering>> FindGathering(const ShareOfAttempt& share);
  // Marks shares with expired leases as LOST, and updates their attempts and jobs in the same transaction.
  absl::StatusOr<std::vector<EndedLease>> ExpireLeases(double now_s);
  // Same for leases that could not be renewed because no coordinator was running: their attempts are
  // withdrawn and do not count.
  absl::StatusOr<std::vector<EndedLease>> WithdrawExpired(double now_s);
  // Ends the session's shares of attempts that span workers, as if they had expired.
  absl::StatusOr<std::vector<EndedLease>> LoseGangShares(const WorkerSession& session,
                                                         const std::string& message, double now_s);

  // Stores a report. Trial, attempt and measurement change in one transaction, under the fencing token.
  //
  // An attempt ends when all its shares have ended. A share that ends without a result breaks the attempt:
  // renewals of the others answer CANCEL. The attempt's result is the first of these that any share has:
  //
  // - OUT_OF_MEMORY
  // - FAILED, its own failure
  // - TIMED_OUT
  // - FAILED by process
  // - REFUSED
  // - LOST
  // - withdrawn: the lease did not reach its worker, the worker was deregistered, or no coordinator was
  //   running; the state is LOST too
  // - CANCELLED unasked
  // - FAILED by a peer
  // - CANCELLED after the attempt was told to stop
  // - MEASURED: the shares' results are merged. Measurements: each step takes the slowest share's time,
  //   memory is the maximum, device_s the sum; median and interval are recomputed. Calibrations, op by op:
  //   the mean over ranks for compute ops, the slowest for communication ops. Timelines: MergeTimelines.
  //
  // FAILED by process or a peer, REFUSED, LOST and CANCELLED unasked queue the job again while fewer than
  // max_attempts ended so. After that, the trial is FAILED in the first case and LOST in the others. A
  // withdrawn attempt queues the job again and does not count. An attempt of a job that was cancelled or
  // queued anew since changes only itself.
  //
  // A worker that returns a job unasked (CANCELLED, and its attempt was not told to stop) or refuses it
  // (REFUSED) uses up one of the job's attempts; deregistering returns its jobs without that cost.
  //
  // Idempotent by request_id. FailedPrecondition for late, duplicate or foreign reports, and for different
  // content under a known request_id; such reports are recorded as rejected (the newest ones are kept).
  // InvalidArgument if the result does not fit its job (CheckFits in attempt_verdict.h); the lease then
  // remains.
  absl::Status Report(const autocfg::v1::ReportTrialRequest& report, double now_s);
  absl::StatusOr<std::int64_t> RejectedReports();
  absl::Status AppendLog(const std::string& lease_id, std::int64_t fencing_token, const std::string& text);

  // An ended study with all that belongs to it, except logs. Trials have their attempts and measurements, and
  // names whose study does not matter.
  struct StudyCopy {
    autocfg::v1::Study study;
    StudyUsage usage;
    std::optional<Calibration> calibration;
    std::vector<autocfg::v1::Trial> trials;
  };
  // Adds the study under a new ID. InvalidArgument if it or a trial of it has not ended, or trials have the
  // same number, or the same plan and repeat.
  absl::StatusOr<autocfg::v1::Study> ImportStudy(const StudyCopy& copy);

  // Deletes what the limits do not keep, and op times that no search would reuse. Details of a trial: its
  // logs, what its ranks needed of memory when they had too little, and the request IDs of its reports. What
  // a recommendation follows from remains. In several transactions, one for each study. With `dry_run`,
  // nothing is deleted: returns what would be.
  absl::StatusOr<Pruned> Prune(const RetentionLimits& limits, double now_s, bool dry_run = false);
  // Gives some of the file's unused space back to the disk, in one short write; with `all`, all of it, which
  // may write the whole file anew. Returns whether there is more that it could give back.
  absl::StatusOr<bool> GiveBackSpace(bool all);

  // Returns the change cursor, which every change of the study or its trials raises. WatchStudy uses it.
  absl::StatusOr<std::int64_t> ChangeCursor(std::int64_t study);
  // Returns the study and the trials that changed after the cursor `after`, up to `limit`, as one snapshot.
  absl::StatusOr<StudyChanges> ChangesAfter(std::int64_t study, std::int64_t after, const ListLimit& limit);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace autocfg::server
