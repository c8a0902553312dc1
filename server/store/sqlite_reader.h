// A read-only store: for files that a search is writing, or that this user cannot write. Takes no lock, so
// readers block neither each other nor a search that starts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace autocfg::server {

// Opens a query-only connection that never checkpoints; only the writer does. Each call reads committed data;
// calls that write return PermissionDenied. A file that has never been written reads as an empty store.
//
// NotFound: no such file. FailedPrecondition: another program's file, or a different version. DataLoss: not a
// database, or damaged. PermissionDenied, Unavailable: cannot read.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStoreReadOnly(const std::string& path);

}  // namespace autocfg::server
