#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "server/store/sqlite/schema.h"
#include "server/store/sqlite/sqlite_file.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {
namespace {

constexpr int kReaderBusyTimeoutMs = 5000;

// Returns the file's size in bytes. Call before SQLite opens the file: closing a descriptor would drop its
// locks.
absl::StatusOr<std::int64_t> ReadableSize(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, fmt::format("database {} cannot be read", path));
  struct stat status {};
  const int failed = ::fstat(fd, &status) != 0 ? errno : 0;
  ::close(fd);
  if (failed != 0) return FileError(failed, fmt::format("database {} cannot be read", path));
  if (S_ISDIR(status.st_mode))
    return absl::InvalidArgumentError(fmt::format("database {} is a directory; name a file with --db", path));
  if (!S_ISREG(status.st_mode))
    return absl::InvalidArgumentError(fmt::format("database {} is not a regular file; name one", path));
  return static_cast<std::int64_t>(status.st_size);
}

absl::Status Check(SQLite::Database& db, const std::string& path) {
  db.exec("PRAGMA query_only = ON");
  AUTOCFG_RETURN_IF_ERROR(CheckSqliteFile(db, path));
  const std::int64_t version = db.execAndGet("PRAGMA user_version").getInt64();
  const auto known = static_cast<std::int64_t>(StoreMigrations().size());
  if (version > 0 && version < known) {
    return absl::FailedPreconditionError(
        fmt::format("database {} has version {}, but this program reads version {}; run a search or a server "
                    "on it to migrate it",
                    path, version, known));
  }
  return absl::OkStatus();
}

// SQLite keeps an index of the write-ahead log beside the file. If there is no log and this user cannot
// create the index (no write permission on the directory), the file alone is the whole database.
bool IsWholeWithoutLog(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path + "-wal", error) || error) return false;
  return ::faccessat(AT_FDCWD, std::filesystem::path(path).parent_path().c_str(), W_OK, AT_EACCESS) != 0;
}

}  // namespace

std::string SqliteUri(const std::string& path, const char* options) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '_' || c == '-';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri + options;
}

absl::StatusOr<SqliteReader> OpenSqliteReader(const std::string& given) {
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(given, error);
  SqliteReader reader;
  reader.path = error ? given : canonical.string();
  AUTOCFG_ASSIGN_OR_RETURN(const auto size, ReadableSize(reader.path));
  if (size == 0) return reader;
  reader.immutable = IsWholeWithoutLog(reader.path);
  try {
    reader.db =
        std::make_unique<SQLite::Database>(SqliteUri(reader.path, reader.immutable ? "?immutable=1" : ""),
                                           SQLite::OPEN_READONLY | SQLite::OPEN_URI, kReaderBusyTimeoutMs);
    sqlite3_db_config(reader.db->getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    reader.db->exec("PRAGMA wal_autocheckpoint = 0");
  } catch (const SQLite::Exception& exception) {
    return StatusOf(exception, reader.path);
  }
  return reader;
}

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStoreReadOnly(const std::string& path) {
  AUTOCFG_ASSIGN_OR_RETURN(auto reader, OpenSqliteReader(path));
  if (reader.db == nullptr) return OpenMemoryStore();
  SqliteFile file;
  file.path = std::move(reader.path);
  file.db = std::move(reader.db);
  try {
    AUTOCFG_RETURN_IF_ERROR(Check(*file.db, file.path));
    // Created, but its first transaction is not committed yet.
    if (file.db->execAndGet("PRAGMA user_version").getInt64() == 0) return OpenMemoryStore();
  } catch (const SQLite::Exception& exception) {
    return StatusOf(exception, file.path);
  }
  return std::make_unique<Store>(std::make_unique<Store::Impl>(std::move(file), SqliteOptions{}));
}

}  // namespace autocfg::server
