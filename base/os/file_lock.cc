#include "base/os/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

namespace autocfg::base {

FileLock::FileLock(UniqueFd file) : file_(std::move(file)) {
  struct flock byte {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = kByte;
  byte.l_len = 1;
  if (file_.ok() && ::fcntl(file_.get(), F_OFD_SETLK, &byte) == 0) return;
  error_ = errno == EACCES && file_.ok() ? EWOULDBLOCK : errno;  // POSIX allows either where it is taken
  if (file_.ok() && error_ == EINVAL) error_ = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  if (error_ != 0) file_.Reset();
}

}  // namespace autocfg::base
