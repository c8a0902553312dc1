// Opens the database: lock file, checks, settings, migrations; and the Status that an SQLite error is. Not
// thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "SQLiteCpp/Database.h"
#include "SQLiteCpp/Exception.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/lock_file.h"

namespace autocfg {

// The one connection of this process, and the lock that keeps others away. The connection closes before the
// lock is let go.
struct SqliteFile {
  std::string path;
  std::optional<LockFile> lock;  // none in memory
  std::unique_ptr<SQLite::Database> db;
};

// `max_pages`: the file's bound in pages of 4096 bytes; 0 = none. Errors as OpenSqliteStore's.
absl::StatusOr<SqliteFile> OpenSqliteFile(const std::string& path, int max_pages);
absl::StatusOr<SqliteFile> OpenSqliteMemory();

// OK where the file is new, or whole, ours and of a version that we know; nothing is written.
// FailedPrecondition: another program's, or a newer version's; DataLoss: damaged. Throws SQLite::Exception.
absl::Status CheckSqliteFile(SQLite::Database& db, const std::string& path);

absl::Status StatusOf(const SQLite::Exception& error, const std::string& path);

}  // namespace autocfg
