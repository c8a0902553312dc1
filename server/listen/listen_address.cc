#include "server/listen/listen_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "fmt/format.h"

namespace autocfg::server {
namespace {

constexpr std::string_view kUnix = "unix:";

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

}  // namespace

std::string ListenText(const ListenAddress& address, int port) {
  if (address.unix_socket) return fmt::format("{}{}", kUnix, address.path);
  const bool brackets = address.host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", address.host, port) : fmt::format("{}:{}", address.host, port);
}

absl::Status CheckPlainText(const ListenAddress& address, bool insecure, bool tokens) {
  if (address.local || (insecure && !tokens)) return absl::OkStatus();
  const std::string text = ListenText(address, address.port);
  if (const auto found = Resolve(address); !found.ok())
    return absl::UnavailableError(fmt::format("address {}: {}", text, std::string(found.status().message())));
  if (tokens) {
    return absl::InvalidArgumentError(
        fmt::format("address {}: it can be reached from other machines, and tokens are never sent to them in "
                    "plain text, whatever --insecure says; give --tls-cert and --tls-key, or listen on "
                    "unix:PATH or 127.0.0.1:PORT",
                    text));
  }
  return absl::InvalidArgumentError(fmt::format(
      "address {}: it can be reached from other machines, and calls are plain text without a "
      "password: anyone who reaches it can run programs as this user; listen on unix:PATH or "
      "127.0.0.1:PORT, give --tls-cert and --tokens, or give --insecure on a network that you trust",
      text));
}

std::string WhyOutOfReach(const ListenAddress& address) {
  if (address.local) return "";
  const auto found = Resolve(address);
  if (!found.ok()) return "";
  for (const addrinfo* each = found->get(); each != nullptr; each = each->ai_next) {
    if (!IsLoopback(each->ai_addr)) return "";
  }
  return fmt::format(
      "{} is a loopback address of this machine: other machines cannot reach it; listen on 0.0.0.0:PORT or "
      "on an address of a network",
      address.host);
}

absl::StatusOr<Addresses> Resolve(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int failed =
          getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
      failed != 0) {
    return absl::UnavailableError(failed == EAI_SYSTEM ? std::generic_category().message(errno)
                                                       : gai_strerror(failed));
  }
  return Addresses(found);
}

}  // namespace autocfg::server
