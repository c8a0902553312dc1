// An exclusive lock on a database's file itself. It excludes processes that open the file by another name (a
// hard link, a bind mount), or after the lock file beside it was deleted. Movable; not thread-safe.
//
// The lock is an open file description lock on one byte that SQLite does not lock. So it is independent of
// SQLite's own locks, in this process and in others, and readers may open the file. Over NFS the server of
// the file system keeps it, as it keeps SQLite's. (flock() would not do there: NFS makes it a lock on all
// bytes, which conflicts with SQLite's.)
//
// When a process closes any descriptor of a file, it loses the POSIX locks that it has on that file, among
// them SQLite's. So destroy an InodeLock only after SQLite has closed the file.
#pragma once

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/os/unique_fd.h"

namespace autocfg::server {

class InodeLock {
 public:
  // Creates an empty file if there is none. FailedPrecondition, if possible with the process: it is locked,
  // by another process or by this one. InvalidArgument: not a regular file. Other errors as FileError makes
  // them. On a system that has no such locks, logs a warning and locks nothing.
  static absl::StatusOr<InodeLock> Acquire(const std::string& path);

  // Returns an error if there is a file which is not a regular one (InvalidArgument), or which neither begins
  // as SQLite's files do nor has a journal (DataLoss); FailedPrecondition if this process has locked it.
  // Changes nothing.
  static absl::Status CheckSqliteHeader(const std::string& path);

  InodeLock(InodeLock&& other) noexcept;
  InodeLock& operator=(InodeLock&& other) = delete;
  ~InodeLock();  // releases the lock

 private:
  InodeLock(base::UniqueFd fd, dev_t device, ino_t inode);

  base::UniqueFd fd_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace autocfg::server
