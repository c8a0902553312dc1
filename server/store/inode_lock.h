// An exclusive lock on a database's file itself. It excludes processes that open the file by another name (a
// hard link, a bind mount), or after the lock file beside it was deleted. Movable; not thread-safe.
//
// When a process closes any descriptor of a file, it loses the POSIX locks that it has on that file, among
// them SQLite's. So destroy an InodeLock only after SQLite has closed the file.
#pragma once

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/os/file_lock.h"

namespace autocfg::server {

class InodeLock {
 public:
  // Creates an empty file if there is none. FailedPrecondition, if possible with the process: it is locked,
  // by another process or by this one. InvalidArgument: not a regular file. Other errors as FileError makes
  // them.
  static absl::StatusOr<InodeLock> Acquire(const std::string& path);

  // Returns an error if there is a file which is not a regular one (InvalidArgument), or which neither begins
  // as SQLite's files do nor has a journal (DataLoss); FailedPrecondition if this process has locked it.
  // Changes nothing.
  static absl::Status CheckSqliteHeader(const std::string& path);

  InodeLock(InodeLock&& other) noexcept;
  InodeLock& operator=(InodeLock&& other) = delete;
  ~InodeLock();  // releases the lock

 private:
  InodeLock(base::FileLock lock, dev_t device, ino_t inode);

  base::FileLock lock_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace autocfg::server
