// The class behind OpenSqliteStore and OpenMemoryStore. Its parts: sqlite_studies.cc, sqlite_trials.cc,
// sqlite_leases.cc, sqlite_reports.cc. Thread-safe: one mutex guards the one connection.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "SQLiteCpp/Statement.h"
#include "SQLiteCpp/Transaction.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/message_lite.h"
#include "server/store/sqlite_file.h"
#include "server/store/store.h"

namespace autocfg {

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(SqliteFile file) : file_(std::move(file)) {}

  void OnChange(std::function<void()> listener) override { listener_ = std::move(listener); }

  absl::Status Health() override {
    absl::MutexLock lock(&mutex_);
    return health_;
  }

  absl::StatusOr<v1::Study> CreateStudy(const std::string& request_id, const v1::Study& study,
                                        double now_s) override;
  absl::StatusOr<v1::Study> GetStudy(std::int64_t id) override;
  absl::StatusOr<std::vector<v1::Study>> ListStudies(std::int64_t before, int limit) override;
  absl::StatusOr<std::optional<v1::Study>> FindUnfinished(const std::string& fingerprint) override;
  absl::StatusOr<std::vector<std::int64_t>> StudiesInState(v1::StudyState state) override;
  absl::Status UpdateStudy(const v1::Study& study) override;
  absl::StatusOr<v1::Study> ModifyStudy(std::int64_t id, const std::function<absl::Status(v1::Study&)>& edit,
                                        const StudyEdit& extra) override;
  absl::StatusOr<StudyUsage> Usage(std::int64_t id) override;
  absl::Status DeleteStudy(std::int64_t id, const std::string& request_id) override;

  absl::StatusOr<v1::Trial> EnqueueTrial(std::int64_t study, const v1::Trial& trial, const v1::Job& job,
                                         std::int64_t max_attempts, double now_s) override;
  absl::Status EnqueueCalibration(std::int64_t study, const v1::Job& job, std::int64_t max_attempts,
                                  double now_s) override;
  absl::StatusOr<v1::Trial> GetTrial(std::int64_t study, std::int64_t number) override;
  absl::StatusOr<std::vector<v1::Trial>> ListTrials(std::int64_t study, std::int64_t after,
                                                    int limit) override;
  absl::StatusOr<std::optional<Calibration>> GetCalibration(std::int64_t study) override;
  absl::StatusOr<std::pair<v1::TrialState, std::string>> CalibrationState(std::int64_t study) override;
  absl::Status CancelJobs(std::int64_t study, double now_s) override;

  absl::StatusOr<std::int64_t> RegisterWorker(const v1::RegisterWorkerRequest& request,
                                              double now_s) override;
  absl::Status DeregisterWorker(const std::string& worker, std::int64_t session_epoch, double now_s) override;
  absl::StatusOr<std::optional<Lease>> LeaseJob(const std::string& worker, std::int64_t session_epoch,
                                                double now_s, double duration_s) override;
  absl::StatusOr<v1::LeaseCommand> RenewLease(const std::string& worker, std::int64_t session_epoch,
                                              const std::string& lease_id, std::int64_t fencing_token,
                                              double now_s, double duration_s) override;
  absl::StatusOr<int> ExpireLeases(double now_s) override;

  absl::Status Report(const struct Report& report, double now_s) override;
  absl::StatusOr<std::int64_t> RefusedReports() override;
  absl::Status AppendLog(const std::string& lease_id, std::int64_t fencing_token,
                         const std::string& text) override;
  absl::StatusOr<std::int64_t> ChangeCursor(std::int64_t study) override;
  absl::StatusOr<StudyChanges> ChangesAfter(std::int64_t study, std::int64_t after, int limit) override;

 private:
  static bool Ok(const absl::Status& status) { return status.ok(); }
  template <typename T>
  static bool Ok(const absl::StatusOr<T>& result) {
    return result.ok();
  }

  // Runs `body` (which returns a Status or StatusOr) in a transaction, committed where it is OK.
  template <typename Body>
  auto Write(Body body) -> decltype(body()) {
    bool changed = false;
    auto result = [&]() -> decltype(body()) {
      absl::MutexLock lock(&mutex_);
      changed_ = false;
      try {
        const int before = db().getTotalChanges();
        SQLite::Transaction transaction(db(), SQLite::TransactionBehavior::IMMEDIATE);
        auto answer = body();
        if (Ok(answer)) {
          transaction.commit();
          changed = changed_;
          if (db().getTotalChanges() != before) health_ = absl::OkStatus();
        }
        return answer;
      } catch (const SQLite::Exception& error) {
        health_ = StatusOf(error, file_.path);
        changed = true;
        return health_;
      }
    }();
    if (changed && listener_) listener_();
    return result;
  }

  // Runs `body` under the mutex, so that all it reads is of one instant.
  template <typename Body>
  auto Read(Body body) -> decltype(body()) {
    absl::MutexLock lock(&mutex_);
    try {
      return body();
    } catch (const SQLite::Exception& error) {
      return StatusOf(error, file_.path);
    }
  }

  SQLite::Database& db() { return *file_.db; }

  // The helpers below run inside Write or Read and throw SQLite::Exception.

  // A statement with its values bound, in order.
  template <typename... Values>
  SQLite::Statement Query(const char* sql, const Values&... values) {
    SQLite::Statement statement(db(), sql);
    int index = 0;
    (Bind(statement, ++index, values), ...);
    return statement;
  }
  template <typename... Values>
  int Execute(const char* sql, const Values&... values) {
    return Query(sql, values...).exec();
  }
  static void Bind(SQLite::Statement& statement, int index, std::int64_t value) {
    statement.bind(index, value);
  }
  static void Bind(SQLite::Statement& statement, int index, int value) { statement.bind(index, value); }
  static void Bind(SQLite::Statement& statement, int index, double value) { statement.bind(index, value); }
  static void Bind(SQLite::Statement& statement, int index, const std::string& value) {
    statement.bind(index, value);
  }
  static void Bind(SQLite::Statement& statement, int index, const char* value) {
    statement.bind(index, value);
  }
  static void Bind(SQLite::Statement& statement, int index, const google::protobuf::MessageLite& message) {
    const std::string bytes = message.SerializeAsString();
    statement.bind(index, bytes.data(), static_cast<int>(bytes.size()));
  }
  // DataLoss-like: throws SQLite::Exception(SQLITE_CORRUPT) where the bytes are no such message.
  static void Parse(const SQLite::Column& column, google::protobuf::MessageLite& message);

  std::int64_t Next(const char* counter);  // raises a counter
  void TouchStudy(std::int64_t id);        // a new change cursor
  void SetTrialState(std::int64_t study, std::int64_t trial, v1::TrialState state,
                     const std::string& message);
  // Of a job and, where it is one, its trial; moves the study's cursor.
  void SetJobState(std::int64_t job, std::int64_t study, std::int64_t trial, v1::TrialState state,
                   const std::string& message);

  std::optional<v1::Study> FindStudy(std::int64_t id);
  v1::Study ReadStudy(SQLite::Statement& row);  // columns: id, state, study
  absl::Status StudyNotFound(std::int64_t id);
  absl::Status CheckStudy(std::int64_t id);  // NotFound
  absl::StatusOr<v1::Study> WriteStudy(v1::Study study, v1::StudyState before);
  // The request's subject where it has been served before.
  std::optional<std::string> FindRequest(const std::string& request_id, const std::string& kind);
  void RememberRequest(const std::string& request_id, const std::string& kind, const std::string& subject);
  bool RequestIdTaken(const std::string& request_id);

  std::vector<v1::Trial> ReadTrials(std::int64_t study, SQLite::Statement& rows,
                                    std::vector<std::int64_t>* changes);
  void CancelOpenJobs(std::int64_t study);
  // Ends attempts that a statement has just made LOST (it returns their jobs): queues the jobs again, or ends
  // them. `costs`: against the bound.
  int RequeueLost(SQLite::Statement& lost, bool costs, const std::string& message);
  absl::StatusOr<std::int64_t> CheckWorker(const std::string& worker,
                                           std::int64_t session_epoch);  // its slots

  std::string RefusalOf(const struct Report& report);  // empty: none
  absl::Status RecordReport(const struct Report& report, double now_s);

  absl::Mutex mutex_;
  SqliteFile file_;
  bool changed_ = false;
  absl::Status health_;
  std::function<void()> listener_;
};

}  // namespace autocfg
