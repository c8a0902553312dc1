// The store of a file that is only read: while a search writes it, or where this user may not write. Takes no
// lock, so that readers disturb neither each other nor a search that starts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/store/store.h"

namespace autocfg {

// A query-only connection that never checkpoints, so that the one writer stays the only one that does. Every
// call reads what is committed; calls that write answer PermissionDenied. A file that nobody has written to
// yet reads as an empty one.
//
// NotFound: no such file; FailedPrecondition: another program's file, or one of another version; DataLoss:
// not a database, or damaged; PermissionDenied, Unavailable: no right to read.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStoreReadOnly(const std::string& path);

}  // namespace autocfg
