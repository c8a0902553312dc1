// The file that a copy from a database is written to, as a backup and an exported study are. It must be
// neither that database nor another one in use. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/inode_lock.h"

namespace autocfg::server {

struct OutputFile {
  std::string path;               // canonical
  std::optional<InodeLock> lock;  // on the file that is replaced, so that nobody opens it as a database
};

// Checks the file `given`, which is to be written whole, by AtomicFile. `database`: the file that is copied
// from. `replace`: an existing file is replaced.
//
// AlreadyExists: the file exists and `replace` is not set. InvalidArgument: not a regular file, or it belongs
// to the database itself or to another one in use. PermissionDenied: the existing file cannot be written.
// Other errors as CannotWriteOutput.
absl::StatusOr<OutputFile> CheckOutputFile(const std::string& given, const std::string& database,
                                           bool replace);

// Returns the status of a failed system call on the file or its directory, with what to do: AlreadyExists,
// NotFound, InvalidArgument, PermissionDenied, FailedPrecondition (no space) or Unavailable.
absl::Status CannotWriteOutput(const std::string& given, int error);

}  // namespace autocfg::server
