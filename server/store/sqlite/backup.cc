#include "server/store/sqlite/backup.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "SQLiteCpp/Backup.h"
#include "SQLiteCpp/Database.h"
#include "SQLiteCpp/Exception.h"
#include "absl/status/status.h"
#include "base/os/atomic_file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "server/store/output_file.h"
#include "server/store/sqlite/sqlite_file.h"
#include "server/store/sqlite/stop_watch.h"

namespace autocfg::server {
namespace {

constexpr int kPagesPerStep = 2048;                        // 8 MiB
constexpr std::int64_t kMapBytes = std::int64_t{1} << 40;  // SQLite lowers it to its own limit
constexpr int kPrimaryCode = 0xff;  // mask: an error code of SQLite without its extension

absl::Status Stopped() { return absl::CancelledError("the backup was stopped"); }

std::int64_t BytesOf(SQLite::Database& db) {
  return db.execAndGet("PRAGMA page_count").getInt64() * db.execAndGet("PRAGMA page_size").getInt64();
}

// Returns the system's error of the last operation on the database's file that failed.
int LastError(SQLite::Database& db) {
  int error = 0;
  sqlite3_file_control(db.getHandle(), "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  return error != 0 ? error : EIO;
}

// Marks a copy as a file without a write-ahead log, as SQLite's file format says. Else whoever reads it would
// need to create one beside it. A store that opens it uses a log again.
void LeaveWriteAheadLog(const std::string& path) {
  constexpr int kVersions = 18;  // offset of the write version; the read version follows
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(kVersions);
  file.write("\1\1", 2);
  if (!file.flush()) throw SQLite::Exception("the header cannot be written", SQLITE_IOERR_WRITE);
}

// What changes when a file is written or replaced.
using FileState = std::tuple<dev_t, ino_t, off_t, std::int64_t, std::int64_t>;

std::optional<FileState> StateOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileState(info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

// A snapshot of the database: a read transaction on a connection of its own.
class Snapshot {
 public:
  // Also checks that there is a database to copy.
  static absl::StatusOr<Snapshot> Open(const std::string& database) {
    AUTOCFG_ASSIGN_OR_RETURN(auto reader, OpenSqliteReader(database));
    Snapshot snapshot(std::move(reader));
    AUTOCFG_RETURN_IF_ERROR(snapshot.Begin());
    return snapshot;
  }

  const std::string& path() const { return reader_.path; }
  std::int64_t bytes() const { return bytes_; }

  // Copies all pages into the new, empty file, in the order of the database's file. `output`: the file's name
  // in messages.
  absl::Status CopyTo(base::AtomicFile& file, const std::string& output, const std::function<bool()>& stop) {
    if (const std::error_code error = file.Reserve(bytes_); error)
      return CannotWriteOutput(output, error.value());
    std::optional<SQLite::Database> copy;
    try {
      // Nobody else has the file, and it is deleted after an error.
      copy.emplace(SqliteUri(file.temporary(), "?nolock=1"), SQLite::OPEN_READWRITE | SQLite::OPEN_URI);
      (void)copy->execAndGet("PRAGMA journal_mode = OFF");
      copy->exec("PRAGMA synchronous = OFF");
      SQLite::Backup backup(*copy, *reader_.db);
      for (int code = SQLITE_OK; code != SQLITE_DONE;) {
        if (stop && stop()) return Stopped();
        code = backup.executeStep(kPagesPerStep);
        if (code == SQLITE_BUSY || code == SQLITE_LOCKED) throw SQLite::Exception(sqlite3_errstr(code), code);
        file.StartFlush();
      }
      copy.reset();
      LeaveWriteAheadLog(file.temporary());
    } catch (const SQLite::Exception& exception) {
      const int code = exception.getErrorCode();
      if ((code & kPrimaryCode) == SQLITE_FULL) return CannotWriteOutput(output, ENOSPC);
      if (code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_TRUNCATE || code == SQLITE_IOERR_CLOSE)
        return CannotWriteOutput(output, copy ? LastError(*copy) : EIO);
      return StatusOf(SQLite::Exception(exception.what(), code & kPrimaryCode), path());
    }
    if (reader_.immutable && (StateOf(path()) != state_ || StateOf(path() + "-wal"))) {
      return absl::UnavailableError(
          fmt::format("database {} was changed by another user's process while it was copied; try again, as "
                      "that user",
                      path()));
    }
    return absl::OkStatus();
  }

  // Ends the transaction, so that writers can reuse their log.
  void End() { reader_.db.reset(); }

 private:
  explicit Snapshot(SqliteReader reader) : reader_(std::move(reader)), state_(StateOf(reader_.path)) {}

  absl::Status Begin() {
    absl::Status empty = absl::FailedPreconditionError(
        fmt::format("database {} is empty; there is nothing to back up", path()));
    if (reader_.db == nullptr) return empty;
    try {
      // The first read begins the snapshot. As long as it lasts, commits do not make the copy start again.
      reader_.db->exec("BEGIN");
      AUTOCFG_RETURN_IF_ERROR(CheckSqliteOrigin(*reader_.db, path()));
      bytes_ = BytesOf(*reader_.db);
      return reader_.db->execAndGet("PRAGMA user_version").getInt64() == 0 ? empty : absl::OkStatus();
    } catch (const SQLite::Exception& exception) {
      return StatusOf(exception, path());
    }
  }

  SqliteReader reader_;
  std::optional<FileState> state_;  // when it was opened
  std::int64_t bytes_ = 0;
};

// Checks the copy and counts what it holds.
absl::Status Examine(const std::string& temporary, const std::string& output,
                     const std::function<bool()>& stop, Backup& backup) {
  try {
    SQLite::Database copy(SqliteUri(temporary, "?immutable=1"), SQLite::OPEN_READONLY | SQLite::OPEN_URI);
    const StopWatch watch(copy, stop);
    (void)copy.execAndGet(fmt::format("PRAGMA mmap_size = {}", kMapBytes));
    if (const std::string check = copy.execAndGet("PRAGMA integrity_check(1)").getString(); check != "ok") {
      return absl::DataLossError(
          fmt::format("database {} is damaged ({}), so no backup was written; keep a copy of the file, then "
                      "restore an earlier backup",
                      backup.database, base::OneLine(check)));
    }
    backup.version = copy.execAndGet("PRAGMA user_version").getInt64();
    backup.studies = copy.execAndGet("SELECT count(*) FROM studies").getInt64();
    backup.bytes = BytesOf(copy);
  } catch (const SQLite::Exception& exception) {
    if ((exception.getErrorCode() & kPrimaryCode) == SQLITE_INTERRUPT) return Stopped();
    return absl::UnavailableError(
        fmt::format("{}: the copy cannot be read again: {}", output, exception.what()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Backup> BackUpSqlite(const std::string& database, const std::string& output,
                                    const BackupOptions& options) {
  AUTOCFG_ASSIGN_OR_RETURN(auto snapshot, Snapshot::Open(database));
  AUTOCFG_ASSIGN_OR_RETURN(const auto checked, CheckOutputFile(output, snapshot.path(), options.replace));
  base::AtomicFile file(checked.path);
  if (const std::error_code error = file.Open(0600); error) return CannotWriteOutput(output, error.value());
  AUTOCFG_RETURN_IF_ERROR(snapshot.CopyTo(file, output, options.stop));
  Backup backup;
  backup.database = snapshot.path();
  snapshot.End();
  AUTOCFG_RETURN_IF_ERROR(Examine(file.temporary(), output, options.stop, backup));
  if (options.stop && options.stop()) return Stopped();
  if (const std::error_code error = file.Finish(options.replace); error)
    return CannotWriteOutput(output, error.value());
  return backup;
}

}  // namespace autocfg::server
