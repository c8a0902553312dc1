#include "server/store/sqlite/sqlite_file.h"

#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "SQLiteCpp/Statement.h"
#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "server/store/sqlite/schema.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/store/store.h"

namespace autocfg::server {
namespace {

constexpr int kBusyTimeoutMs = 5000;
constexpr const char* kLockSuffix = ".lock";

absl::Status MakeParent(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.parent_path();
  if (parent.empty()) return absl::OkStatus();
  std::error_code error;
  if (std::filesystem::is_directory(parent, error)) return absl::OkStatus();
  // Created directories are private to the user.
  std::filesystem::path made;
  for (const std::filesystem::path& part : parent) {
    made /= part;
    if (::mkdir(made.c_str(), 0700) == 0 || errno == EEXIST || errno == EISDIR) continue;
    if (std::filesystem::is_directory(made, error)) continue;
    const int number = errno;
    return FileError(number, fmt::format("the directory {} of database {} cannot be created", parent.string(),
                                         path.string()));
  }
  if (!std::filesystem::is_directory(parent, error)) {
    return FileError(ENOTDIR, fmt::format("the directory {} of database {} cannot be created",
                                          parent.string(), path.string()));
  }
  return absl::OkStatus();
}

absl::Status Prepare(SQLite::Database& db, const std::string& path, int max_pages) {
  AUTOCFG_RETURN_IF_ERROR(CheckSqliteFile(db, path));
  // Of a new file: space can be given back in small steps. Others change when they are written anew.
  db.exec("PRAGMA auto_vacuum = INCREMENTAL");
  if (max_pages > 0) (void)db.execAndGet(fmt::format("PRAGMA max_page_count = {}", max_pages)).getInt64();
  if (path != ":memory:") {
    const std::string mode = db.execAndGet("PRAGMA journal_mode = WAL").getString();
    if (mode != "wal") {
      return absl::UnavailableError(fmt::format(
          "database {} cannot use a write-ahead log (mode {}); put it on a local file system", path, mode));
    }
    db.exec("PRAGMA synchronous = FULL");
  }
  if (db.execAndGet("PRAGMA application_id").getInt64() == 0)
    db.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
  AUTOCFG_RETURN_IF_ERROR(Migrate(db, StoreMigrations(), path));
  db.exec("PRAGMA foreign_keys = ON");
  return absl::OkStatus();
}

// The index of the write-ahead log grows by 32 KiB at a time; allow for a few of these and some pages.
constexpr std::uintmax_t kLeastFreeBytes = std::uintmax_t{128} * 1024;

// Returns the free space of the file's file system; the largest number if unknown.
std::uintmax_t FreeBytes(const std::string& path) {
  std::error_code error;
  const auto space = std::filesystem::space(std::filesystem::path(path).parent_path(), error);
  return error ? std::numeric_limits<std::uintmax_t>::max() : space.available;
}

// Returns true if a file of the database cannot grow because of the process's limit on the size of files.
bool AtFileSizeLimit(const std::string& path, std::uintmax_t limit) {
  for (const char* part : {"", "-wal", "-shm"}) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path + part, error);
    if (!error && size + kLeastFreeBytes > limit) return true;
  }
  return false;
}

// Returns the process's limit on the size of files; the largest number if there is none.
std::uintmax_t FileSizeLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::uintmax_t>::max();
  return limit.rlim_cur;
}

}  // namespace

absl::Status CheckSqliteOrigin(SQLite::Database& db, const std::string& path) {
  const std::int64_t tables = db.execAndGet("SELECT count(*) FROM sqlite_master").getInt64();
  const std::int64_t application = db.execAndGet("PRAGMA application_id").getInt64();
  const std::int64_t version = db.execAndGet("PRAGMA user_version").getInt64();
  if (tables == 0 && application == 0 && version == 0) return absl::OkStatus();
  if (application != kApplicationId) {
    return absl::FailedPreconditionError(
        fmt::format("{} is an SQLite database of another program; choose another --db", path));
  }
  const auto known = static_cast<std::int64_t>(StoreMigrations().size());
  if (version > known) {
    return NewerVersion(path, version, known);
  }
  return absl::OkStatus();
}

absl::Status CheckSqliteFile(SQLite::Database& db, const std::string& path) {
  AUTOCFG_RETURN_IF_ERROR(CheckSqliteOrigin(db, path));
  const std::string check = db.execAndGet("PRAGMA quick_check(1)").getString();
  if (check != "ok") {
    return absl::DataLossError(
        fmt::format("database {} is damaged ({}); keep a copy, then restore it or choose another --db", path,
                    base::OneLine(check)));
  }
  return absl::OkStatus();
}

absl::Status StatusOf(const SQLite::Exception& error, const std::string& path) {
  const auto no_room = [&path] {
    return NoSpace(fmt::format("no space for database {}; free some space on its disk", path));
  };
  switch (error.getErrorCode()) {
    case SQLITE_FULL: return no_room();
    case SQLITE_NOTADB:
      return absl::DataLossError(fmt::format("{} is not a database of autocfg; choose another --db", path));
    case SQLITE_CORRUPT:
      return absl::DataLossError(
          fmt::format("database {} is damaged ({}); keep a copy, then restore it or choose another --db",
                      path, error.what()));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(
          fmt::format("no permission to write database {}: {}", path, error.what()));
    case SQLITE_IOERR:
      // On a full disk, the index of the write-ahead log cannot grow, which SQLite reports this way.
      if (FreeBytes(path) < kLeastFreeBytes) return no_room();
      if (const std::uintmax_t limit = FileSizeLimit(); AtFileSizeLimit(path, limit)) {
        return absl::UnavailableError(fmt::format(
            "database {} cannot be used: files of this process may have {} bytes; raise the limit "
            "(ulimit -f, LimitFSIZE)",
            path, limit));
      }
      return absl::UnavailableError(fmt::format("database {} cannot be used: {}", path, error.what()));
    case SQLITE_CANTOPEN:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(fmt::format("database {} cannot be used: {}", path, error.what()));
    default: return absl::InternalError(fmt::format("database {}: {}", path, error.what()));
  }
}

absl::StatusOr<SqliteFile> OpenSqliteFile(const std::string& given, int max_pages) {
  if (given.empty()) return absl::InvalidArgumentError("the database's path is empty; name a file with --db");
  AUTOCFG_RETURN_IF_ERROR(MakeParent(given));
  std::error_code error;
  // Canonical, so that a file has one lock whatever path names it.
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(given, error);
  const std::string path = error ? given : canonical.string();
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(fmt::format("database {} is a directory; name a file with --db", path));
  }

  // Before a lock file is made beside what belongs to somebody else.
  if (absl::Status status = InodeLock::CheckSqliteHeader(path); !status.ok() && !IsInUse(status))
    return status;
  SqliteFile file;
  file.path = path;
  AUTOCFG_ASSIGN_OR_RETURN(auto lock, LockFile::Acquire(path + kLockSuffix, "database " + path));
  file.lock.emplace(std::move(lock));
  absl::Cleanup refused = [&file] { file.lock->RemoveIfMade(); };
  AUTOCFG_ASSIGN_OR_RETURN(auto inode, InodeLock::Acquire(path));
  file.inode.emplace(std::move(inode));
  try {
    file.db = std::make_unique<SQLite::Database>(path, SQLite::OPEN_READWRITE, kBusyTimeoutMs);
    AUTOCFG_RETURN_IF_ERROR(Prepare(*file.db, path, max_pages));
  } catch (const SQLite::Exception& exception) {
    return StatusOf(exception, path);
  }
  std::move(refused).Cancel();
  return file;
}

absl::StatusOr<SqliteFile> OpenSqliteMemory(int max_pages) {
  SqliteFile file;
  file.path = ":memory:";
  try {
    file.db = std::make_unique<SQLite::Database>(file.path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    AUTOCFG_RETURN_IF_ERROR(Prepare(*file.db, file.path, max_pages));
  } catch (const SQLite::Exception& exception) {
    return StatusOf(exception, file.path);
  }
  return file;
}

std::optional<pid_t> DatabaseOwner(const std::string& path) { return LockOwner(path + kLockSuffix); }

}  // namespace autocfg::server
