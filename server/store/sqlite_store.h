// The store in an SQLite file: one connection that writes and checkpoints, WAL with synchronous=FULL, STRICT
// tables, versioned migrations. A lock file beside the database names the owner's process.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace autocfg::server {

struct SqliteOptions {
  // Size limit of the file in pages of 4096 bytes, beyond which writes fail with ResourceExhausted; 0 = no
  // limit.
  int max_pages = 0;
};

// Opens the database; creates the file and its directory if needed. FailedPrecondition: the file has a newer
// version, or another process (which is named) holds it. DataLoss: not a database, or damaged.
// ResourceExhausted, PermissionDenied, Unavailable: no space, or not writable.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path,
                                                       const SqliteOptions& options = {});

// Opens an in-memory store, for tests and temporary data.
absl::StatusOr<std::unique_ptr<Store>> OpenMemoryStore();

}  // namespace autocfg::server
