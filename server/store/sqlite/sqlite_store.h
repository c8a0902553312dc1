// The store in an SQLite file: one connection that writes and checkpoints, WAL with synchronous=FULL, STRICT
// tables, versioned migrations. A lock file beside the database names the owner's process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store.h"
#include "server/store/turns/fair_share.h"

namespace autocfg::server {

struct SqliteOptions {
  // Size limit of the file in pages of 4096 bytes, beyond which writes fail with ResourceExhausted; 0 = no
  // limit.
  int max_pages = 0;
  // How many rejected reports are kept, the newest ones.
  std::int64_t kept_rejections = 10'000;
  OwnerLimits owners = {};  // of each owner
};

// Opens the database; creates the file and its directory if needed. FailedPrecondition: the file has a newer
// version, or another process (which is named) holds it. DataLoss: not a database, or damaged.
// ResourceExhausted, PermissionDenied, Unavailable: no space, or not writable.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path,
                                                       const SqliteOptions& options = {});

// Opens an in-memory store, for tests and temporary data.
absl::StatusOr<std::unique_ptr<Store>> OpenMemoryStore(const SqliteOptions& options = {});

// Opens a store for reading: of a file that a search is writing, or that this user cannot write. Takes no
// lock, so readers block neither each other nor a search that starts. The connection never checkpoints. Each
// call reads committed data; calls that write return PermissionDenied. A file that has never been written
// reads as an empty store.
//
// NotFound: no such file. FailedPrecondition: another program's file, or a different version. DataLoss: not a
// database, or damaged. PermissionDenied, Unavailable: cannot read.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStoreReadOnly(const std::string& path);

// As LockOwner (lock_file.h), of a database.
std::optional<pid_t> DatabaseOwner(const std::string& path);

}  // namespace autocfg::server
