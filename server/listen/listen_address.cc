#include "server/listen/listen_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "fmt/format.h"
#include "server/store/lock_file.h"

namespace autocfg::server {
namespace {

constexpr std::string_view kUnix = "unix:";

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

struct AddressesDeleter {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesDeleter>;

// Returns the addresses to listen on. Returns null, and sets `why`, if there are none.
Addresses Resolve(const ListenAddress& address, std::string& why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int failed =
          getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
      failed != 0) {
    why = gai_strerror(failed);
    return nullptr;
  }
  return Addresses(found);
}

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

std::string ListenText(const ListenAddress& address, int port) {
  if (address.unix_socket) return fmt::format("{}{}", kUnix, address.path);
  const bool brackets = address.host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", address.host, port) : fmt::format("{}:{}", address.host, port);
}

absl::Status CheckPlainText(const ListenAddress& address, bool insecure) {
  if (address.local || insecure) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("address {}: it can be reached from other machines, and calls are plain text without a "
                  "password: anyone who reaches it can run programs as this user; listen on unix:PATH or "
                  "127.0.0.1:PORT, or give --insecure on a network that you trust",
                  ListenText(address, address.port)));
}

std::string WhyOutOfReach(const ListenAddress& address) {
  if (address.local) return "";
  std::string why;
  const Addresses found = Resolve(address, why);
  if (!found) return "";
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    if (!IsLoopback(each->ai_addr)) return "";
  }
  return fmt::format(
      "{} is a loopback address of this machine: other machines cannot reach it; listen on 0.0.0.0:PORT or "
      "on an address of a network",
      address.host);
}

std::string WhyNotListening(const ListenAddress& address) {
  std::string why;
  const Addresses found = Resolve(address, why);
  if (!found) return why;
  why = "cannot listen there";
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    const int fd = ::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd, each->ai_addr, each->ai_addrlen) != 0 || ::listen(fd, 1) != 0) {
      why = std::generic_category().message(errno);
      ::close(fd);
      break;
    }
    ::close(fd);
  }
  return why;
}

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
