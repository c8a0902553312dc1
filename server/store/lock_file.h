// An exclusive lock on a file; the file contains the ID of the process that holds it. Movable; not
// thread-safe.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/os/file_lock.h"

namespace autocfg::server {

class LockFile {
 public:
  // Creates the file if it does not exist. Returns FailedPrecondition, with the owner's process, if another
  // process (or another opener in this process) holds the lock. `what` names the locked object in messages.
  static absl::StatusOr<LockFile> Acquire(const std::string& path, const std::string& what);

  // Removes the file if Acquire has made it, for an object that turned out to be somebody else's. Whoever may
  // own the object needs a lock that does not depend on this file (InodeLock).
  void RemoveIfMade() const;

 private:
  LockFile(base::FileLock lock, std::string made) : lock_(std::move(lock)), made_(std::move(made)) {}
  base::FileLock lock_;  // the file remains: removing it could give the lock to two owners
  std::string made_;     // the path, if the file is new; else empty
};

// Returns the process that holds the lock of a file, without taking it; nothing if none does, or if it is not
// seen (a process of another PID namespace).
std::optional<pid_t> LockOwner(const std::string& path);

// Returns FailedPrecondition for a file that another process uses. IsInUse recognizes it; other errors with
// this code have other reasons.
absl::Status InUseError(const std::string& message);
bool IsInUse(const absl::Status& status);

// Returns the status of a failed system call on `path`: PermissionDenied, NotFound, ResourceExhausted,
// InvalidArgument or Unavailable.
absl::Status FileError(int error_number, const std::string& what);

}  // namespace autocfg::server
