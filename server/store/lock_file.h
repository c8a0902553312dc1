// An exclusive lock that one process holds on a file, with that process named in it. Movable; not
// thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace autocfg {

class LockFile {
 public:
  // Makes the file where it is missing. FailedPrecondition, naming the owner's process, when another one (or
  // another opener in this process) has it. `what` says in messages what is locked.
  static absl::StatusOr<LockFile> Acquire(const std::string& path, const std::string& what);

  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&& other) noexcept;
  ~LockFile();  // Releases; the file stays, since removing it would let two owners in.

 private:
  explicit LockFile(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// The status of a failed system call on `path`: PermissionDenied, NotFound, ResourceExhausted,
// InvalidArgument or Unavailable.
absl::Status FileError(int error_number, const std::string& what);

}  // namespace autocfg
