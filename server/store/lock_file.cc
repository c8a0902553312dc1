#include "server/store/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fmt/format.h"

namespace autocfg::server {

absl::Status FileError(int error_number, const std::string& what) {
  const std::string message = fmt::format("{}: {}", what, std::strerror(error_number));
  switch (error_number) {
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return absl::ResourceExhaustedError(message);
    case ENOENT: return absl::NotFoundError(message);
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP: return absl::InvalidArgumentError(message);
    default: return absl::UnavailableError(message);
  }
}

absl::StatusOr<LockFile> LockFile::Acquire(const std::string& path, const std::string& what) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return FileError(errno, fmt::format("{} cannot be locked with {}", what, path));
  LockFile lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(errno, fmt::format("{} cannot be locked with {}", what, path));
    char owner[32] = {};
    const ssize_t length = ::pread(fd, owner, sizeof(owner) - 1, 0);
    std::string name(owner, length > 0 ? static_cast<std::size_t>(length) : 0);
    while (!name.empty() && name.back() == '\n') name.pop_back();
    return absl::FailedPreconditionError(
        fmt::format("{} is in use by process {}; wait for it, stop it, or choose another --db", what,
                    name.empty() ? "(unknown)" : name));
  }
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return FileError(errno, fmt::format("{} cannot be locked with {}", what, path));
  }
  return lock;
}

bool LockFile::IsHeld(const std::string& path) {
  const LockFile probe(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return probe.fd_ >= 0 && ::flock(probe.fd_, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

LockFile::LockFile(LockFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

LockFile& LockFile::operator=(LockFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

LockFile::~LockFile() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace autocfg::server
