#include "server/store/lock_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/cord.h"
#include "base/os/unique_fd.h"
#include "fmt/format.h"

namespace autocfg::server {
namespace {

constexpr const char* kInUsePayload = "autocfg/database-in-use";

}  // namespace

absl::Status FileError(int error_number, const std::string& what) {
  const std::string message = fmt::format("{}: {}; ", what, std::strerror(error_number));
  switch (error_number) {
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message + "give this user access, or name another path");
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return absl::ResourceExhaustedError(message + "free some space, or name another path");
    case ENOENT: return absl::NotFoundError(message + "name a path that exists");
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP: return absl::InvalidArgumentError(message + "name another path");
    default: return absl::UnavailableError(message + "the system's log may say why");
  }
}

absl::Status InUseError(const std::string& message) {
  absl::Status status = absl::FailedPreconditionError(message);
  status.SetPayload(kInUsePayload, absl::Cord());
  return status;
}

bool IsInUse(const absl::Status& status) { return status.GetPayload(kInUsePayload).has_value(); }

absl::StatusOr<LockFile> LockFile::Acquire(const std::string& path, const std::string& what) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  const auto cannot = [&](int error) {
    return FileError(error, fmt::format("{} cannot be locked with {}", what, path));
  };
  base::UniqueFd file(::open(path.c_str(), kFlags | O_EXCL, 0600));
  const bool made = file.ok();
  if (!made) file = base::UniqueFd(::open(path.c_str(), kFlags, 0600));
  base::FileLock lock(std::move(file));
  if (lock.error() == EWOULDBLOCK) {
    std::string owner;
    std::ifstream(path) >> owner;
    return InUseError(fmt::format("{} is in use by process {}; wait for it, stop it, or choose another --db",
                                  what, owner.empty() ? "(unknown)" : owner));
  }
  if (!lock.held()) return cannot(lock.error());
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(lock.fd(), 0) != 0 ||
      ::pwrite(lock.fd(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return cannot(errno);
  return LockFile(std::move(lock), made ? path : "");
}

std::optional<pid_t> LockOwner(const std::string& path) {
  pid_t owner = 0;
  if (!(std::ifstream(path) >> owner) || owner <= 0) return std::nullopt;
  // The number stays in the file when the process ends, and another process may have it then.
  namespace fs = std::filesystem;
  const fs::path process = fmt::format("/proc/{}", owner);
  std::error_code error;
  for (fs::directory_iterator fd(process / "fd", error), end; !error && fd != end; fd.increment(error)) {
    std::error_code closed;
    if (fs::equivalent(fd->path(), path, closed) && !closed) return owner;
  }
  if (error != std::errc::permission_denied) return std::nullopt;
  std::string name;  // of another user's process, whose descriptors are not shown
  std::ifstream(process / "comm") >> name;
  return name.starts_with("autocfg") ? std::optional(owner) : std::nullopt;
}

void LockFile::RemoveIfMade() const {
  if (lock_.held() && !made_.empty()) ::unlink(made_.c_str());
}

}  // namespace autocfg::server
