// Copies a database that others may use meanwhile. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace autocfg::server {

struct BackupOptions {
  bool replace = false;  // an existing file is replaced
  // True: the backup ends with Cancelled. Polled before every 8 MiB, and every 50 ms by another thread during
  // the check; never by two threads at once, and not while the system flushes the copy.
  std::function<bool()> stop = {};
};

struct Backup {
  std::string database;  // canonical
  std::int64_t bytes = 0;
  std::int64_t studies = 0;
  std::int64_t version = 0;  // of the schema
};

// Writes a copy of the database to the file `output`. The copy is one snapshot: all that was committed before
// the call, and no part of what is committed later. Writers are not blocked; their write-ahead log grows by
// what they commit meanwhile. Before the copy gets its name, it is checked (integrity_check), on the disk,
// and readable by its owner alone. If the call fails, no file remains, and an existing `output` is unchanged.
//
// AlreadyExists: `output` exists. NotFound: no database, or no directory for `output`. InvalidArgument: not a
// file, or `output` belongs to the database itself or to another one in use. FailedPrecondition: an empty
// database, another program's or a newer version; no space for `output`. DataLoss: the database is damaged.
// PermissionDenied, Unavailable: cannot read or write. Cancelled: `stop` returned true.
absl::StatusOr<Backup> BackUpSqlite(const std::string& database, const std::string& output,
                                    const BackupOptions& options = {});

}  // namespace autocfg::server
