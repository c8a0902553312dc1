#include "server/listen/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"
#include "server/store/lock_file.h"

namespace autocfg::server {
namespace {

bool SomebodyListens(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return true;  // unknown: leave the file alone
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int failed =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ? errno : 0;
  ::close(fd);
  return failed != ECONNREFUSED && failed != ENOENT;
}

}  // namespace

absl::Status ClearSocketPath(const std::string& path) {
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (path.empty()) return absl::InvalidArgumentError("the socket's path is empty");
  if (path.size() > kLongest) {
    return absl::InvalidArgumentError(fmt::format(
        "socket {}: the path has {} bytes; the limit for sockets is {}", path, path.size(), kLongest));
  }
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return FileError(errno, fmt::format("socket {}", path));
    const std::filesystem::path parent = std::filesystem::path(path).parent_path();
    std::error_code error;
    if (!parent.empty() && !std::filesystem::is_directory(parent, error)) {
      return absl::NotFoundError(fmt::format("socket {}: there is no directory {}", path, parent.string()));
    }
    return absl::OkStatus();
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::FailedPreconditionError(fmt::format("socket {}: the path exists and is not a socket", path));
  }
  if (info.st_uid != ::geteuid()) {
    return absl::FailedPreconditionError(fmt::format("socket {}: the path is another user's socket", path));
  }
  if (SomebodyListens(path)) {
    return absl::FailedPreconditionError(fmt::format("socket {}: another coordinator listens there", path));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return FileError(errno, fmt::format("socket {}", path));
  return absl::OkStatus();
}

absl::Status CloseToOthers(const std::string& path) {
  if (::chmod(path.c_str(), 0600) != 0) return FileError(errno, fmt::format("socket {}", path));
  return absl::OkStatus();
}

}  // namespace autocfg::server
