// Plain sockets of a client that speaks no HTTP/2.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "base/os/unique_fd.h"

namespace autocfg::server {

// Connects to the numeric address. Returns no descriptor if that fails.
inline base::UniqueFd ConnectTo(const std::string& host, int port) {
  sockaddr_in four{};
  sockaddr_in6 six{};
  const bool is_six = inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1;
  if (!is_six) inet_pton(AF_INET, host.c_str(), &four.sin_addr);
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  four.sin_port = six.sin6_port = htons(static_cast<std::uint16_t>(port));
  base::UniqueFd fd(::socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* address = is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
  if (!fd.ok() || ::connect(fd.get(), address, is_six ? sizeof six : sizeof four) != 0) return {};
  return fd;
}

// Connects to the Unix socket. Returns no descriptor if that fails.
inline base::UniqueFd ConnectTo(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.ok() || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return {};
  return fd;
}

enum class Peer { kOpen, kClosed };

// Waits until the peer closes the connection or sends something, at most `limit_ms`.
inline Peer WaitForPeer(const base::UniqueFd& connection, int limit_ms = 20'000) {
  pollfd polled{.fd = connection.get(), .events = POLLIN, .revents = 0};
  if (::poll(&polled, 1, limit_ms) <= 0) return Peer::kOpen;
  char byte = 0;
  return ::recv(connection.get(), &byte, 1, MSG_PEEK) > 0 ? Peer::kOpen : Peer::kClosed;
}

}  // namespace autocfg::server
