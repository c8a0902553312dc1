// Opens the database (lock file, checks, settings, migrations) and converts SQLite errors to statuses. Not
// thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "SQLiteCpp/Database.h"
#include "SQLiteCpp/Exception.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/inode_lock.h"
#include "server/store/lock_file.h"

namespace autocfg::server {

// The process's only connection, and the locks that exclude other processes. The connection closes before the
// locks are released.
struct SqliteFile {
  std::string path;
  // Unset for in-memory databases. The first excludes others by the file's name, which names its write-ahead
  // log too; the second by the file itself.
  std::optional<LockFile> lock;
  std::optional<InodeLock> inode;
  std::unique_ptr<SQLite::Database> db;
};

// `max_pages`: size limit of the file in pages of 4096 bytes; 0 = no limit. Errors: as OpenSqliteStore.
absl::StatusOr<SqliteFile> OpenSqliteFile(const std::string& path, int max_pages);
absl::StatusOr<SqliteFile> OpenSqliteMemory(int max_pages);

// A connection that only reads, takes no lock and never checkpoints. Each statement reads committed data.
struct SqliteReader {
  std::string path;                      // canonical
  std::unique_ptr<SQLite::Database> db;  // null: the file is empty
  // The file alone is the database, and is read without locks: it has no log, and this user may not create
  // one. A process of a user who may could change it meanwhile.
  bool immutable = false;
};
// NotFound, InvalidArgument, PermissionDenied, Unavailable: cannot be read. Does not check what the file is.
absl::StatusOr<SqliteReader> OpenSqliteReader(const std::string& path);

// Returns `path` as a URI, so that no character of it has a meaning to SQLite. `options`: "" or
// "?NAME=VALUE".
std::string SqliteUri(const std::string& path, const char* options);

// Returns OK if the file is new, or ours and of a known version. Errors as CheckSqliteFile.
absl::Status CheckSqliteOrigin(SQLite::Database& db, const std::string& path);

// Returns OK if the file is new, or intact, ours and of a known version. Does not write. FailedPrecondition:
// another program's file or a newer version. DataLoss: damaged. Throws SQLite::Exception.
absl::Status CheckSqliteFile(SQLite::Database& db, const std::string& path);

absl::Status StatusOf(const SQLite::Exception& error, const std::string& path);

}  // namespace autocfg::server
