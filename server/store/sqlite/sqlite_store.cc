#include "server/store/sqlite/sqlite_store.h"

#include <sqlite3.h>

#include <utility>

#include "fmt/format.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path,
                                                       const SqliteOptions& options) {
  auto file = OpenSqliteFile(path, options.max_pages);
  if (!file.ok()) return file.status();
  return std::make_unique<SqliteStore>(*std::move(file), options);
}

absl::StatusOr<std::unique_ptr<Store>> OpenMemoryStore(const SqliteOptions& options) {
  auto file = OpenSqliteMemory(options.max_pages);
  if (!file.ok()) return file.status();
  return std::make_unique<SqliteStore>(*std::move(file), options);
}

void SqliteStore::Parse(const SQLite::Column& column, google::protobuf::MessageLite& message) {
  if (!message.ParseFromArray(column.getBlob(), column.getBytes())) {
    throw SQLite::Exception(fmt::format("a stored {} cannot be read", message.GetTypeName()), SQLITE_CORRUPT);
  }
}

std::int64_t SqliteStore::Next(const char* counter) {
  SQLite::Statement statement =
      Query("UPDATE counters SET value = value + 1 WHERE name = ? RETURNING value", counter);
  statement.executeStep();
  return statement.getColumn(0).getInt64();
}

void SqliteStore::TouchStudy(std::int64_t id) {
  Execute("UPDATE studies SET change = ? WHERE id = ?", Next("change"), id);
  change_.studies.push_back(id);
}

void SqliteStore::TouchTrial(std::int64_t study, std::int64_t trial) {
  const std::int64_t change = Next("change");
  if (trial > 0) Execute("UPDATE trials SET change = ? WHERE study = ? AND number = ?", change, study, trial);
  Execute("UPDATE studies SET change = ? WHERE id = ?", change, study);
  change_.studies.push_back(study);
}

void SqliteStore::SetTrialState(std::int64_t study, std::int64_t trial, v1::TrialState state,
                                const std::string& message) {
  const std::int64_t change = Next("change");
  Execute("UPDATE trials SET state = ?, message = ?, change = ? WHERE study = ? AND number = ?",
          static_cast<int>(state), message, change, study, trial);
  Execute("UPDATE studies SET change = ? WHERE id = ?", change, study);
  change_.studies.push_back(study);
  if (IsEnd(state)) commit_.trials_ended.push_back(state);
}

void SqliteStore::SetJobState(std::int64_t job, std::int64_t study, std::int64_t trial, v1::TrialState state,
                              const std::string& message) {
  Execute("UPDATE jobs SET state = ?, message = ? WHERE id = ?", static_cast<int>(state), message, job);
  change_.work = true;
  if (trial > 0) {
    SetTrialState(study, trial, state, message);
  } else {
    TouchStudy(study);
  }
}

std::optional<std::string> SqliteStore::FindRequest(const std::string& request_id, const std::string& kind) {
  if (request_id.empty()) return std::nullopt;
  SQLite::Statement row =
      Query("SELECT subject FROM requests WHERE request_id = ? AND kind = ?", request_id, kind);
  if (!row.executeStep()) return std::nullopt;
  return row.getColumn(0).getString();
}

bool SqliteStore::RequestIdTaken(const std::string& request_id) {
  return !request_id.empty() &&
         Query("SELECT 1 FROM requests WHERE request_id = ?", request_id).executeStep();
}

absl::Status SqliteStore::RequestIdReused(const std::string& request_id) {
  return absl::AlreadyExistsError(
      fmt::format("request_id {} was used for another request; choose a new one", request_id));
}

void SqliteStore::RememberRequest(const std::string& request_id, const std::string& kind,
                                  const std::string& subject) {
  if (!request_id.empty()) {
    Execute("INSERT INTO requests (request_id, kind, subject) VALUES (?, ?, ?)", request_id, kind, subject);
  }
}

}  // namespace autocfg::server
