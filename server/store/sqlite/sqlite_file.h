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
  // Unset for in-memory databases. The first excludes others by the file's name, which names its write-ahead log
  // too; the second by the file itself.
  std::optional<LockFile> lock;
  std::optional<InodeLock> inode;
  std::unique_ptr<SQLite::Database> db;
};

// `max_pages`: size limit of the file in pages of 4096 bytes; 0 = no limit. Errors: as OpenSqliteStore.
absl::StatusOr<SqliteFile> OpenSqliteFile(const std::string& path, int max_pages);
absl::StatusOr<SqliteFile> OpenSqliteMemory();

// Returns OK if the file is new, or intact, ours and of a known version. Does not write. FailedPrecondition:
// another program's file or a newer version. DataLoss: damaged. Throws SQLite::Exception.
absl::Status CheckSqliteFile(SQLite::Database& db, const std::string& path);

absl::Status StatusOf(const SQLite::Exception& error, const std::string& path);

}  // namespace autocfg::server
