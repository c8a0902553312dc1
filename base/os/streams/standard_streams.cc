#include "base/os/streams/standard_streams.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace autocfg::base {

// System calls only: what runs before the libraries are initialized must not call those of a sanitizer.
__attribute__((no_sanitize("address", "thread", "undefined"))) void FillStandardDescriptors() {
  // The lowest free descriptor is taken, and all below are open by then.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::syscall(SYS_fcntl, fd, F_GETFD) >= 0) continue;
    const int direction = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::syscall(SYS_openat, AT_FDCWD, "/dev/null", direction) < 0) return;
  }
}

bool FlushStandardOutput() {
  const bool cpp = std::cout.flush().good();
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && cpp;
}

}  // namespace autocfg::base
