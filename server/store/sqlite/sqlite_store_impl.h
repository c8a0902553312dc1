// What the functions of Store share: transactions of the only connection, which a mutex guards, and functions
// that read and write rows in them. Store and Store::Impl are implemented together, a file for each concept.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "fmt/format.h"
#include "server/store/attempt_verdict.h"
#include "server/store/placement.h"
#include "server/store/query.h"
#include "server/store/sqlite/sqlite_file.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/store/store.h"
#include "server/store/turns/fair_queue.h"

namespace autocfg::server {

// What a transaction returns whose body returns T.
template <typename T>
struct TransactionResult {
  using Type = absl::StatusOr<T>;
};
template <typename T>
struct TransactionResult<absl::StatusOr<T>> {
  using Type = absl::StatusOr<T>;
};
template <>
struct TransactionResult<absl::Status> {
  using Type = absl::Status;
};
template <>
struct TransactionResult<void> {
  using Type = absl::Status;
};

class Store::Impl {
 public:
  Impl(SqliteFile file, const SqliteOptions& options)
      : file_(std::move(file)), kept_rejections_(options.kept_rejections), limits_(options.owners) {}

  template <typename Body>
  using ResultOf = typename TransactionResult<decltype(std::declval<Body>()())>::Type;
  template <typename Body>
  static ResultOf<Body> Call(Body& body) {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return absl::OkStatus();
    } else {
      return body();
    }
  }

  // Runs `body` (which returns a Status, a StatusOr, a value or nothing) in a transaction, and commits unless
  // it returns an error. Another thread that writes at the same time may run it, while this one waits.
  template <typename Body>
  ResultOf<Body> Write(Body body) {
    std::optional<ResultOf<Body>> result;
    PendingWrite write;
    write.run = [&] {
      result = Call(body);
      return result->ok();
    };
    CommitInTurn(write);
    if (commit_listener_ && write.counted) commit_listener_(*write.counted);
    const StoreChange& change = write.change;
    if (listener_ && (change.work || change.failed || !change.studies.empty())) listener_(change);
    if (!write.failure.ok()) return write.failure;
    return *std::move(result);
  }

  // A write that waits for its transaction.
  struct PendingWrite {
    std::function<bool()> run;  // returns whether to commit; throws SQLite::Exception
    bool ended = false;         // guarded by turns_mutex_
    bool refused = false;       // `run` returned false: its result is an error of its own
    bool saw_others = false;    // it ran after a write that its transaction was to commit
    // Once it has ended:
    StoreChange change;
    std::vector<std::string> renewals;  // leases whose renewals it wrote
    bool commits = false;
    std::optional<StoreCommit> counted;  // what it did; nothing if it changed nothing
    absl::Status failure;                // of the storage
  };
  // Returns once the write is committed, is undone or has failed. Writes that wait at the same time share a
  // transaction, so that a sync of the disk serves them all. None is seen before it is synced.
  void CommitInTurn(PendingWrite& write) ABSL_LOCKS_EXCLUDED(turns_mutex_, mutex_);
  void CommitTogether(const std::vector<PendingWrite*>& writes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs one of several writes of a transaction. If it is not to be committed, or if it fails and leaves the
  // transaction intact, undoes it alone.
  void RunInSavepoint(PendingWrite& write);
  void Run(PendingWrite& write);
  // The transaction of the writes is undone. Those that have an error of their own keep it.
  static void Fail(const std::vector<PendingWrite*>& writes, const absl::Status& failure);

  // Runs such a body under the mutex, so that its reads form one snapshot.
  template <typename Body>
  ResultOf<Body> Read(Body body) {
    absl::MutexLock lock(&mutex_);
    try {
      return Call(body);
    } catch (const SQLite::Exception& error) {
      return StatusOf(error, file_.path);
    }
  }

  SQLite::Database& db() { return *file_.db; }

  // The functions below run inside Write or Read and throw SQLite::Exception.

  template <typename... Columns, typename... Values>
  Query<Columns...> Rows(const std::string& sql, const Values&... values) {
    return Query<Columns...>(db(), sql, values...);
  }
  template <typename... Columns, typename... Values>
  auto All(const std::string& sql, const Values&... values) {
    return Rows<Columns...>(sql, values...).All();
  }
  template <typename... Columns, typename... Values>
  auto One(const std::string& sql, const Values&... values) {
    return Rows<Columns...>(sql, values...).One();
  }
  template <typename... Columns, typename... Values>
  auto Find(const std::string& sql, const Values&... values) {  // no value: there is no row
    return Rows<Columns...>(sql, values...).Next();
  }
  template <typename... Values>
  int Execute(const std::string& sql, const Values&... values) {
    return server::Execute(db(), sql, values...);
  }

  std::int64_t Next(const char* counter);  // increments a counter
  // Assigns a new change cursor to a study and to one of its trials (0: none).
  void Touch(std::int64_t study, std::int64_t trial = 0);
  void SetTrialState(std::int64_t study, std::int64_t trial, v1::TrialState state,
                     const std::string& message);
  // Sets the state of a job and of its trial, if it has one; advances the study's cursor.
  void SetJobState(std::int64_t job, std::int64_t study, std::int64_t trial, v1::TrialState state,
                   const std::string& message);

  std::optional<v1::Study> FindStudy(std::int64_t id);
  std::optional<v1::Study> FindUnfinished(const std::string& fingerprint);  // the newest
  absl::StatusOr<v1::Study> Create(const std::string& request_id, const v1::Study& given, double now_s,
                                   bool reuse_unfinished);
  static v1::Study StudyOf(std::int64_t id, v1::StudyState state, v1::Study stored);
  static absl::Status StudyNotFound(std::int64_t id);
  absl::Status CheckStudy(std::int64_t id);  // NotFound
  void SetTurnWeight(std::int64_t id, double weight);
  absl::StatusOr<v1::Study> WriteStudy(v1::Study study, v1::StudyState before);
  // Returns the subject of the request if it was served before.
  std::optional<std::string> FindRequest(const std::string& request_id, const std::string& kind);
  void RememberRequest(const std::string& request_id, const std::string& kind, const std::string& subject);
  bool RequestIdTaken(const std::string& request_id);
  static absl::Status RequestIdReused(const std::string& request_id);

  // Selects trials by a condition on their columns.
  using TrialRows =
      Query<std::int64_t, std::int64_t, v1::TrialState, std::string, v1::Trial, std::string, std::int64_t>;
  template <typename... Values>
  TrialRows SelectTrials(const std::string& condition, const Values&... values) {
    return TrialRows(
        db(),
        "SELECT number, repeat, state, message, trial, plan_text, change FROM trials WHERE " + condition,
        values...);
  }
  // Returns such trials of a study, up to `limit`, each with the cursor of its last change.
  std::vector<std::pair<std::int64_t, v1::Trial>> ReadTrials(std::int64_t study, TrialRows& rows,
                                                             const ListLimit& limit);
  std::optional<v1::Trial> FindTrial(std::int64_t study, std::int64_t number);
  // Returns the study's trial of the plan and repeat. FailedPrecondition if there is none and the study has
  // ended.
  absl::StatusOr<std::optional<v1::Trial>> FindKnown(std::int64_t study, const v1::Trial& trial);
  std::int64_t NextTrial(std::int64_t study);  // takes its number
  // Adds the row of a trial. `source`: whose measurement it reuses; empty: none.
  void InsertTrial(std::int64_t study, std::int64_t number, const v1::Trial& trial,
                   const std::string& source);
  void CancelOpenJobs(std::int64_t study);
  static absl::Status CheckJob(const v1::Job& job, std::int64_t max_attempts);
  // Queues a job. A calibration (trial 0) that is there already is queued again, with all its attempts.
  void QueueJob(std::int64_t study, std::int64_t trial, const v1::Job& job, std::int64_t max_attempts);
  absl::Status SessionStatus(const WorkerSession& session);  // implements CheckSession
  std::optional<std::int64_t> LastEpoch(const std::string& worker);
  // Returns the workers that the condition on their columns selects, up to `limit`.
  template <typename... Values>
  std::vector<WorkerRecord> ReadWorkers(const ListLimit& limit, const std::string& condition,
                                        const Values&... values) {
    return ReadWorkers(limit, WorkerRows(db(),
                                         "SELECT worker, epoch, inventory, active, draining, registered_s "
                                         "FROM workers WHERE " +
                                             condition,
                                         values...));
  }
  using WorkerRows = Query<std::string, std::int64_t, v1::Inventory, bool, bool, double>;
  std::vector<WorkerRecord> ReadWorkers(const ListLimit& limit, WorkerRows rows);

  // Both lists have the same order.
  struct WorkersAtWork {
    std::vector<PlacementWorker> workers;
    std::vector<WorkerSession> sessions;
  };
  WorkersAtWork ReadWorkersAtWork(const std::vector<WorkerSession>& waiting,
                                  const std::vector<WorkerSession>& live,
                                  const std::vector<RunningShare>& running, double now_s);
  bool AnyQueued();  // of running studies
  PlacementJob ReadPlacementJob(const QueuedJob& queued, double now_s);
  // Returns WaitingJob::until_s.
  static double LatestEndOfLeases(const std::vector<RunningShare>& running, double now_s, double duration_s);
  // Returns the latest expiry of a lease granted now on a job with this time limit. nullopt: no limit.
  static std::optional<double> LatestExpiry(double limit_s, double now_s);
  static std::int64_t RanksOf(const std::vector<PlacedShare>& shares);
  // Adds the use of an attempt that has ended to that of its study and its owner.
  void AddUseOf(std::int64_t study, std::int64_t job, std::int64_t attempt, double now_s);
  void AddTurn(std::int64_t id, const v1::Study& study);  // of a study that was just added
  // Returns whether the owner's limit of devices keeps a job from starting now. `queue`: returned it last.
  bool OverQuota(const FairQueue& queue, const std::string& owner, const PlacementJob& job) const;
  // ResourceExhausted if the owner's limits allow no further study.
  absl::Status CheckLimitsOf(const std::string& owner);
  std::int64_t BytesOf(std::int64_t study);  // stored
  std::int64_t BytesOf(const std::string& owner);
  std::optional<double> LeavesAt(const WorkerSession& session) const;
  v1::Job JobOf(std::int64_t job) { return One<v1::Job>("SELECT job FROM jobs WHERE id = ?", job); }
  double NeededSeconds(std::int64_t job);  // of a worker that runs it; see LeaseJobs
  // Starts an attempt of a queued job and appends its leases. A share's worker is an index into `sessions`.
  void GiveOut(std::int64_t job, const std::vector<PlacedShare>& shares,
               const std::vector<WorkerSession>& sessions, double now_s, double duration_s,
               std::vector<Lease>& leases);

  struct Ending {
    ShareEnd end = ShareEnd::kLost;
    double now_s = 0;
    std::string message;
    bool used = true;      // the ranks were held since the lease began
    bool expired = false;  // the lease ran out

    LeaseEnd how() const {
      if (end == ShareEnd::kWithdrawn) return LeaseEnd::kReturned;
      return expired ? LeaseEnd::kExpired : LeaseEnd::kLost;
    }
  };
  // By what running shares are found. SQLite would choose an index that also has all shares that ended.
  enum class FoundBy : std::uint8_t { kLease, kWorker, kExpiry };
  static const char* IndexOf(FoundBy by) {
    switch (by) {
      case FoundBy::kLease: return "";  // unique
      case FoundBy::kWorker: return "INDEXED BY running_shares";
      case FoundBy::kExpiry: return "INDEXED BY running_shares_by_expiry";
    }
    return "";
  }
  // Ends the running shares that `where` selects, in one statement, and settles their attempts. `values` are
  // its parameters from ?5 on.
  template <typename... Values>
  std::vector<EndedLease> EndShares(const Ending& ending, FoundBy by, const char* where,
                                    const Values&... values) {
    const std::string sql = fmt::format(
        R"sql(
          UPDATE shares {}
          SET ending = ?1, end_s = ?2, message = ?3, device_s = ?4 * ranks * MAX(0, ?2 -
              (SELECT start_s FROM attempts a WHERE a.job = shares.job AND a.number = shares.attempt))
          WHERE ending = 0 AND {}
          RETURNING job, attempt, worker, epoch)sql",
        IndexOf(by), where);
    std::vector<EndedLease> leases =
        SettleEnded(All<std::int64_t, std::int64_t, std::string, std::int64_t>(
                        sql, ending.end, ending.now_s, ending.message, ending.used, values...),
                    ending.now_s);
    LeasesEnded(ending.how(), leases.size());
    return leases;
  }
  void LeasesEnded(LeaseEnd how, std::size_t count) {
    commit_.leases_ended[static_cast<std::size_t>(how)] += static_cast<std::int64_t>(count);
  }
  // Writes the renewals of leases whose stored time has run out by then.
  void WriteRenewals(double stored_until_s);
  // Settles the attempts of shares that have ended: the job, attempt, worker and epoch of each.
  using EndedRow = std::tuple<std::int64_t, std::int64_t, std::string, std::int64_t>;
  std::vector<EndedLease> SettleEnded(const std::vector<EndedRow>& ended, double now_s);
  // Ends the attempt if all its shares have ended. Tells the others to stop if one broke it. `last`: the
  // report of the share that ended last, whose results are not in its row; null: there is none.
  void SettleAttempt(std::int64_t job, std::int64_t attempt, double now_s,
                     const v1::ReportTrialRequest* last = nullptr);
  void EndAttempt(std::int64_t job, std::int64_t attempt, double now_s, const v1::ReportTrialRequest* last);
  // Drops the messages of the study's jobs, or of one job (0: all), that can never run again: they were
  // measured or out of memory, or their study has ended, and no attempt of them still runs.
  void DropDoneJobs(std::int64_t study, std::int64_t job);
  struct EndedShare {
    ShareEnd end = ShareEnd::kRuns;
    std::string worker;
    std::string message;
    int ranks = 0;
    std::optional<v1::Measurement> measurement;
    std::optional<v1::CalibrateResult> calibration;
    std::optional<v1::StepTimeline> timeline;
  };
  std::vector<EndedShare> ReadShares(std::int64_t job, std::int64_t attempt,
                                     const v1::ReportTrialRequest* last);  // by rank
  // Keeps the timeline of a trial that was just measured, if it is one of those that FindTimeline returns.
  void KeepTimeline(std::int64_t study, std::int64_t trial, const std::vector<EndedShare>& shares);
  void DropSlowTimelines(std::int64_t study);  // those that FindTimeline does not return
  // Returns the trials of a study whose timelines are kept, if this trial has one too (0: none).
  std::set<std::int64_t> FastestTimelines(std::int64_t study, std::int64_t trial);
  void DropTimelinesBut(std::int64_t study, const std::set<std::int64_t>& kept);
  // Keep the result of the attempt that was just measured: for its study, and for later studies.
  void KeepCalibration(std::int64_t study, std::int64_t job, std::int64_t attempt,
                       const std::vector<EndedShare>& shares, double now_s);
  // Lets later studies reuse a trial that was just measured (ReuseTrial), if its workers and their load allow
  // it.
  void KeepResult(std::int64_t study, std::int64_t trial, std::int64_t job, std::int64_t attempt,
                  std::int64_t steps, double now_s);
  // Returns the key of what an attempt measured. No value: it has none, or another job ran on its workers.
  std::optional<OpTimesKey> KeyOf(std::int64_t job, std::int64_t attempt, const v1::Job& asked);
  // Implements FindOpTimes.
  Calibration ReadOpTimes(const OpTimesKey& key, const v1::CalibrateSpec& spec, double now_s);
  // Takes the ops whose times are kept for the worker's ranks out of the study's calibration, and keeps these
  // times for its result. At least one op remains: its memory comes with the result.
  void LeaveOutKeptOps(std::int64_t study, std::int64_t job, const std::string& worker, std::int64_t ranks,
                       double now_s, v1::Job& given);
  void KeepOpTimes(std::int64_t job, std::int64_t attempt, const Calibration& measured, double now_s);
  // Returns true if one calibration timed all of the spec's communication ops, if any, as FindOpTimes
  // requires.
  bool CommunicationWasTimedTogether(const OpTimesKey& key, const v1::CalibrateSpec& spec, double since_s);
  bool SharedItsWorkers(std::int64_t job, std::int64_t attempt);
  // Reads the study's calibration, complete or partial.
  std::optional<Calibration> ReadCalibration(std::int64_t study, bool partial);
  void WriteCalibration(std::int64_t study, const Calibration& calibration, bool partial);

  // Add the parts of an imported study.
  void AddWorker(const std::string& worker);  // deregistered, unless it is known
  struct AddedAttempt {
    v1::Attempt attempt;
    std::vector<std::string> workers;
    double device_s = 0;
    std::optional<v1::Measurement> measurement;
  };
  std::int64_t AddEndedJob(std::int64_t study, std::int64_t trial, v1::TrialState state,
                           const std::string& message, const std::vector<AddedAttempt>& attempts);
  void AddTrial(std::int64_t study, const v1::Trial& trial);

  struct EndedStudy {
    std::int64_t id = 0;
    double end_s = 0;
    bool has_result = false;
    bool reduced = false;
  };
  std::vector<EndedStudy> ReadEnded();  // the one that ended first is the first
  std::int64_t BytesInUse();
  // Returns whether there are more.
  bool PruneRows(const RetentionLimits& limits, double now_s, Pruned& pruned);
  void ReduceStudy(std::int64_t id);
  void EraseStudy(std::int64_t id);  // implements DeleteStudy
  void ForgetReports(std::int64_t study);
  // Calls `run` with each step of a pruning.
  using PruneStep = std::function<void()>;
  absl::Status PruneInSteps(const RetentionLimits& limits, double now_s, Pruned& pruned,
                            const std::function<absl::Status(const PruneStep&)>& run);

  std::string RejectionOf(const v1::ReportTrialRequest& report);  // empty: accepted
  absl::Status RecordReport(const v1::ReportTrialRequest& report, double now_s);

  absl::Mutex turns_mutex_ ABSL_ACQUIRED_AFTER(mutex_);
  std::vector<PendingWrite*> turns_ ABSL_GUARDED_BY(turns_mutex_);  // oldest first
  bool committing_ ABSL_GUARDED_BY(turns_mutex_) = false;           // a thread runs writes
  absl::Mutex mutex_;
  SqliteFile file_;
  const std::int64_t kept_rejections_;
  const OwnerLimits limits_;
  StoreChange change_;                         // of the write at hand
  StoreCommit commit_;                         // same
  std::vector<std::string> written_renewals_;  // same: leases
  // Renewals that are not stored yet, by lease. Each is stored or dropped once its stored time has run out.
  struct Renewal {
    double expires_s = 0;
    double stored_s = 0;  // what the file says
  };
  std::map<std::string, Renewal> renewals_;
  // Of workers that leave: the session, and when it takes no more jobs.
  std::map<std::string, std::pair<std::int64_t, double>> leaving_;
  absl::Status health_;
  std::function<void(const StoreChange&)> listener_;
  std::function<void(const StoreCommit&)> commit_listener_;
};

}  // namespace autocfg::server
