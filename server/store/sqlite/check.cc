#include "server/store/sqlite/check.h"

#include <sqlite3.h>

#include <utility>

#include "SQLiteCpp/Database.h"
#include "autocfg/v1/study_service.pb.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "server/names/names.h"
#include "server/store/query.h"
#include "server/store/sqlite/schema.h"
#include "server/store/sqlite/sqlite_file.h"
#include "server/store/sqlite/stop_watch.h"

namespace autocfg::server {
namespace {

constexpr int kPrimaryResultCode = 0xff;

// Appends a problem for each row, as long as there is room. `describe`: returns it; "": the row is none.
template <typename... Columns, typename Describe>
void AddProblems(SQLite::Database& db, const std::string& sql, Describe describe,
                 std::vector<std::string>& problems) {
  Query<Columns...> rows(db, sql);
  while (problems.size() < kMostProblems) {
    const auto row = rows.Next();
    if (!row) break;
    if (const std::string text = describe(*row); !text.empty()) problems.push_back(base::OneLine(text));
  }
}

void FindProblems(SQLite::Database& db, bool known_version, std::vector<std::string>& problems) {
  AddProblems<std::string>(
      db, fmt::format("PRAGMA integrity_check({})", kMostProblems),
      [](const std::string& text) { return text == "ok" ? "" : text; }, problems);
  if (!problems.empty()) return;  // what follows would read a damaged file
  AddProblems<std::string, std::optional<std::string>, std::string, int>(
      db, "PRAGMA foreign_key_check",
      [](const auto& row) {
        return fmt::format("row {} of table {} refers to a missing row of {}", std::get<1>(row).value_or("?"),
                           std::get<0>(row), std::get<2>(row));
      },
      problems);
  if (!known_version) return;
  AddProblems<std::int64_t, std::int64_t>(
      db,
      fmt::format(
          R"sql(
            SELECT t.study, t.number
            FROM trials t
            WHERE (t.state = {0}) <> (t.source <> '' OR EXISTS
              (SELECT 1
               FROM jobs j
               JOIN attempts a ON a.job = j.id AND a.state = {0}
               JOIN measurements m ON m.job = a.job AND m.attempt = a.number
               WHERE j.study = t.study AND j.trial = t.number AND j.state = {0})))sql",
          static_cast<int>(v1::TRIAL_STATE_MEASURED)),
      [](const auto& row) {
        return fmt::format("{}: its state and its measurement do not agree", std::apply(TrialName, row));
      },
      problems);
}

}  // namespace

absl::StatusOr<DatabaseCheck> CheckSqlite(const std::string& database, const std::function<bool()>& stop) {
  AUTOCFG_ASSIGN_OR_RETURN(auto reader, OpenSqliteReader(database));
  DatabaseCheck check;
  check.database = reader.path;
  if (reader.db == nullptr) return check;  // an empty file is an empty database
  SQLite::Database& db = *reader.db;
  try {
    const StopWatch watch(db, stop);
    db.exec("BEGIN");
    AUTOCFG_RETURN_IF_ERROR(CheckSqliteOrigin(db, reader.path));
    check.version = db.execAndGet("PRAGMA user_version").getInt64();
    const std::int64_t page = db.execAndGet("PRAGMA page_size").getInt64();
    check.bytes = page * db.execAndGet("PRAGMA page_count").getInt64();
    check.unused_bytes = page * db.execAndGet("PRAGMA freelist_count").getInt64();
    FindProblems(db, check.version == static_cast<std::int64_t>(StoreMigrations().size()), check.problems);
    if (check.version > 0 && check.problems.empty()) {
      check.studies = db.execAndGet("SELECT count(*) FROM studies").getInt64();
      check.trials = db.execAndGet("SELECT count(*) FROM trials").getInt64();
    }
  } catch (const SQLite::Exception& exception) {
    if ((exception.getErrorCode() & kPrimaryResultCode) == SQLITE_INTERRUPT)
      return absl::CancelledError("the check was stopped");
    if ((exception.getErrorCode() & kPrimaryResultCode) != SQLITE_CORRUPT)
      return StatusOf(exception, reader.path);
    check.problems.push_back(base::OneLine(exception.what()));
  }
  return check;
}

}  // namespace autocfg::server
