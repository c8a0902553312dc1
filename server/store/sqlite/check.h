// Checks a database that others may use meanwhile. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace autocfg::server {

struct DatabaseCheck {
  std::string database;               // canonical
  std::vector<std::string> problems;  // empty: it is intact; at most kMostProblems
  std::int64_t version = 0;           // of the schema
  std::int64_t bytes = 0;             // of the file, without its log
  std::int64_t unused_bytes = 0;
  std::int64_t studies = 0;
  std::int64_t trials = 0;
};

inline constexpr int kMostProblems = 20;

// Reads the whole database, as one snapshot: SQLite's own check of the file, references between rows, and
// that each measured trial has its attempt and its measurement. Writers are not blocked. `stop` is polled
// every 50 ms.
//
// NotFound, InvalidArgument: no such file, or not a file. FailedPrecondition: another program's database, or
// a newer version. DataLoss: not a database. PermissionDenied, Unavailable: cannot be read. Cancelled: `stop`
// returned true.
absl::StatusOr<DatabaseCheck> CheckSqlite(const std::string& database,
                                          const std::function<bool()>& stop = {});

}  // namespace autocfg::server
