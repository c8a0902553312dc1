// The listening sockets of an address: several for a host name, one for a wildcard or a Unix socket. Not
// thread-safe.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/os/unique_fd.h"
#include "server/listen/listen_address.h"

namespace autocfg::server {

class ListenSockets {
 public:
  // Opens the sockets, non-blocking. Clients can connect from then on, and wait to be accepted. No other
  // socket can listen on the same address and port. A wildcard host (0.0.0.0 or ::) takes IPv4 and IPv6.
  // Only the owner can use a Unix socket (mode 0600); one that a server left behind is replaced.
  //
  // TCP: Unavailable, with the system's reason. Unix socket: InvalidArgument: the path is too long.
  // FailedPrecondition: a server listens there, or the file is not a socket or belongs to another user.
  // NotFound: the directory does not exist. PermissionDenied, Unavailable: other errors of the system.
  static absl::StatusOr<ListenSockets> Open(const ListenAddress& address);

  ListenSockets(ListenSockets&& other) noexcept;
  ListenSockets& operator=(ListenSockets&&) = delete;
  // Closes the sockets. Clients that were not accepted are disconnected. Removes the file of the Unix
  // socket.
  ~ListenSockets();

  const std::vector<base::UniqueFd>& sockets() const { return sockets_; }
  int port() const { return port_; }  // 0: a Unix socket

 private:
  ListenSockets() = default;

  std::vector<base::UniqueFd> sockets_;
  int port_ = 0;
  std::string path_;  // of the Unix socket's file; empty: none
  dev_t device_ = 0;  // with inode_: the file, which another may have replaced
  ino_t inode_ = 0;

  static absl::StatusOr<ListenSockets> OpenUnix(const std::string& path);
  static absl::StatusOr<ListenSockets> OpenTcp(const ListenAddress& address);
};

}  // namespace autocfg::server
