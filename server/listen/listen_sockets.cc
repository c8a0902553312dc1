#include "server/listen/listen_sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "server/store/lock_file.h"

namespace autocfg::server {
namespace {

// Free ports to try until one is free at all addresses of a host name.
constexpr int kPortsToTry = 16;

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

bool SomebodyListens(const std::string& path) {
  const base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return true;  // unknown: leave the file alone
  const sockaddr_un address = UnixAddress(path);
  const int failed =
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ? errno : 0;
  return failed != ECONNREFUSED && failed != ENOENT;
}

// Removes a socket at `path` that nobody listens on. Errors: as ListenSockets::Open.
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

// Copies an address of the system, with `port`.
sockaddr_storage WithPort(const addrinfo& found, int port) {
  sockaddr_storage address{};
  std::memcpy(&address, found.ai_addr, std::min<std::size_t>(found.ai_addrlen, sizeof(address)));
  // IPv4 and IPv6 have the port at the same place.
  reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

bool IsWildcard(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == htonl(INADDR_ANY);
  return address.ss_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// An address that takes IPv4 too, where IPv6 exists.
sockaddr_storage DualStackWildcard(int port) {
  sockaddr_storage address{};
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  six.sin6_addr = in6addr_any;
  return address;
}

sockaddr_storage FourWildcard(int port) {
  sockaddr_storage address{};
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  four.sin_family = AF_INET;
  four.sin_port = htons(static_cast<std::uint16_t>(port));
  four.sin_addr.s_addr = htonl(INADDR_ANY);
  return address;
}

// Returns the socket; sets `error` if it has none.
base::UniqueFd ListenAt(const sockaddr_storage& address, int& error) {
  base::UniqueFd fd(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const int off = 0;
  // SO_REUSEADDR: a restarted server need not wait for the connections of the last one. Not SO_REUSEPORT: two
  // coordinators on one port would share its calls.
  const socklen_t size = address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (fd.ok() && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      (!IsWildcard(address) || address.ss_family == AF_INET ||
       ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      ::listen(fd.get(), SOMAXCONN) == 0) {
    return fd;
  }
  error = errno;
  return {};
}

int PortOf(const base::UniqueFd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

bool Same(const addrinfo& one, const addrinfo& other) {
  return one.ai_addrlen == other.ai_addrlen && std::memcmp(one.ai_addr, other.ai_addr, one.ai_addrlen) == 0;
}

// The addresses to listen on, each once: a host's name can be listed twice in /etc/hosts.
std::vector<const addrinfo*> Distinct(const addrinfo* found) {
  std::vector<const addrinfo*> distinct;
  for (; found != nullptr; found = found->ai_next) {
    const auto same = [found](const addrinfo* each) { return Same(*each, *found); };
    if (std::none_of(distinct.begin(), distinct.end(), same)) distinct.push_back(found);
  }
  return distinct;
}

// Sockets that opened before an error are closed with it.
struct Opened {
  std::vector<base::UniqueFd> sockets;
  int port = 0;
  int error = 0;  // 0: listening
};

// Listens at all addresses, on one port. An address that this machine does not have is left out if it has
// another.
Opened ListenAtAll(const std::vector<const addrinfo*>& addresses, int port) {
  Opened opened;
  opened.port = port;
  int missing = 0;
  for (const addrinfo* each : addresses) {
    sockaddr_storage address = WithPort(*each, opened.port);
    const bool wildcard = IsWildcard(address);
    if (wildcard) address = DualStackWildcard(opened.port);
    int error = 0;
    base::UniqueFd socket = ListenAt(address, error);
    if (wildcard && error == EAFNOSUPPORT) {
      error = 0;
      socket = ListenAt(FourWildcard(opened.port), error);
    }
    if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) {
      missing = error;
      continue;
    }
    if (error != 0) {
      opened.error = error;
      return opened;
    }
    if (opened.port == 0) opened.port = PortOf(socket);
    opened.sockets.push_back(std::move(socket));
    if (wildcard) break;
  }
  if (opened.sockets.empty()) opened.error = missing;
  return opened;
}

}  // namespace

absl::StatusOr<ListenSockets> ListenSockets::Open(const ListenAddress& address) {
  return address.unix_socket ? OpenUnix(address.path) : OpenTcp(address);
}

absl::StatusOr<ListenSockets> ListenSockets::OpenUnix(const std::string& path) {
  AUTOCFG_RETURN_IF_ERROR(ClearSocketPath(path));
  ListenSockets opened;
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = UnixAddress(path);
  if (!fd.ok() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return FileError(errno, fmt::format("socket {}", path));
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return FileError(errno, fmt::format("socket {}", path));
  opened.path_ = path;
  opened.device_ = info.st_dev;
  opened.inode_ = info.st_ino;
  // Nobody can connect before listen(), so nobody can use the socket before it is private.
  if (::chmod(path.c_str(), 0600) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
    return FileError(errno, fmt::format("socket {}", path));
  opened.sockets_.push_back(std::move(fd));
  return opened;
}

absl::StatusOr<ListenSockets> ListenSockets::OpenTcp(const ListenAddress& address) {
  const auto unavailable = [&address](const std::string& why) {
    return absl::UnavailableError(
        fmt::format("address {}: {}; give one of this machine, with a port that is free",
                    ListenText(address, address.port), why));
  };
  const auto found = Resolve(address);
  if (!found.ok()) return unavailable(std::string(found.status().message()));
  const std::vector<const addrinfo*> addresses = Distinct(found->get());
  Opened opened = ListenAtAll(addresses, address.port);
  for (int i = 1; i < kPortsToTry && address.port == 0 && opened.error == EADDRINUSE; ++i)
    opened = ListenAtAll(addresses, address.port);
  if (opened.error != 0) return unavailable(std::generic_category().message(opened.error));
  ListenSockets sockets;
  sockets.sockets_ = std::move(opened.sockets);
  sockets.port_ = opened.port;
  return sockets;
}

ListenSockets::ListenSockets(ListenSockets&& other) noexcept
    : sockets_(std::move(other.sockets_)),
      port_(other.port_),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_) {}

ListenSockets::~ListenSockets() {
  if (path_.empty()) return;
  // Before the socket closes: as long as it listens, no other server replaces the file.
  struct stat info {};
  if (::lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_)
    ::unlink(path_.c_str());
}

}  // namespace autocfg::server
