// An exclusive lock on an open file, while the object or its process lives. Movable; not thread-safe.
//
// The lock is an open file description lock (F_OFD_SETLK) on one byte, which SQLite does not lock: so it is
// independent of SQLite's locks on the same file. Over NFS the server of the file system keeps it, whereas
// flock() there would lock all bytes. On systems without such locks (gVisor), flock() takes their place.
//
// The lock belongs to the open file, as the descriptors do that dup() and fork() make. Open the file with
// O_CLOEXEC, or a program that is started meanwhile keeps the lock. The file must be open for writing, so a
// directory cannot be locked: lock a file in it.
#pragma once

#include <sys/types.h>

#include <utility>

#include "base/os/unique_fd.h"

namespace autocfg::base {

class FileLock {
 public:
  // The locked byte, before those that SQLite locks. It may lie beyond the end of the file.
  static constexpr off_t kByte = (off_t{1} << 30) - 1;

  FileLock() = default;  // holds nothing
  // Takes the lock, if it can be had now. If open() failed to make `file`, errno must say why.
  explicit FileLock(UniqueFd file);
  FileLock(FileLock&&) noexcept = default;
  FileLock& operator=(FileLock&&) noexcept = default;
  ~FileLock() = default;  // releases the lock

  bool held() const { return file_.ok(); }
  // Why it is not held, as errno. EWOULDBLOCK: another process has it, or another opener in this one.
  int error() const { return error_; }
  int fd() const { return file_.get(); }
  void Release() { file_.Reset(); }

 private:
  UniqueFd file_;
  int error_ = 0;
};

}  // namespace autocfg::base
