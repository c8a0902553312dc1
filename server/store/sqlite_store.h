// The store in an SQLite file: one connection that writes and checkpoints, WAL with synchronous=FULL, STRICT
// tables, versioned migrations, an exclusive lock file beside the database that names its owner's process.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace autocfg {

// Opens or makes the file and its directory. FailedPrecondition: a newer version's file, or another process
// has it (which one is named); DataLoss: not a database, or damaged; ResourceExhausted / PermissionDenied /
// Unavailable: no room or no right to write.
struct SqliteOptions {
  int max_pages =
      0;  // the file's bound in pages of 4096 bytes, beyond which writes are ResourceExhausted; 0 = none
};
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path,
                                                       const SqliteOptions& options = {});

// In memory, for tests and for what need not last.
absl::StatusOr<std::unique_ptr<Store>> OpenMemoryStore();

}  // namespace autocfg
