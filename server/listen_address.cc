#include "server/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kForms = "give unix:PATH, HOST:PORT or [IPV6]:PORT";
constexpr std::size_t kLongestHost = 253;
constexpr int kLargestPort = 65535;

// What is shown of a text from outside is short and printable.
std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, 120));
  for (char& c : shown) {
    if (std::isprint(static_cast<unsigned char>(c)) == 0) c = '?';
  }
  return shown;
}

absl::Status Wrong(std::string_view text, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("address {}: {}; {}", Shown(text), what, kForms));
}

bool IsLoopback(const in_addr& four) { return (ntohl(four.s_addr) >> 24) == 127; }

bool IsLoopback(const ListenAddress& address) {
  in_addr four{};
  if (inet_pton(AF_INET, address.host.c_str(), &four) == 1) return IsLoopback(four);
  in6_addr six{};
  if (inet_pton(AF_INET6, address.host.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return address.host == "localhost";
}

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return IsLoopback(reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

struct AddressesDeleter {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesDeleter>;

// Those to listen at; null, and why, where there are none.
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

bool AllOf(std::string_view text, std::string_view besides) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || besides.find(c) != std::string_view::npos;
  });
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  ListenAddress address;
  if (text.starts_with(kUnix)) {
    address.unix_socket = address.local = true;
    address.path = text.substr(kUnix.size());
    if (address.path.empty()) return Wrong(text, "the socket's path is empty");
    // Targets are read as URIs, where other characters mean something else.
    if (!AllOf(address.path, "/._-+=,@"))
      return Wrong(text, "a socket's path has letters, digits and /._-+=,@ only");
    return address;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return Wrong(text, "the port is missing");
  const std::string_view port = std::string_view(text).substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty()) return Wrong(text, "the port is missing");
  if (error != std::errc() || end != port.data() + port.size() || address.port < 0 ||
      address.port > kLargestPort)
    return Wrong(text, fmt::format("the port must be a number from 0 to {}", kLargestPort));
  const std::string_view host = std::string_view(text).substr(0, colon);
  if (host.starts_with('[')) {
    if (host.size() < 3 || !host.ends_with(']'))
      return Wrong(text, "the brackets around the host do not close");
    address.host = host.substr(1, host.size() - 2);
    in6_addr six{};
    if (inet_pton(AF_INET6, address.host.c_str(), &six) != 1)
      return Wrong(text, "what is in the brackets is no IPv6 address");
  } else {
    if (host.empty()) return Wrong(text, "the host is missing");
    if (host.find(':') != std::string_view::npos) return Wrong(text, "an IPv6 address stands in brackets");
    if (host.size() > kLongestHost || !AllOf(host, ".-"))
      return Wrong(text, "the host is not the name of one");
    address.host = host;
  }
  address.local = IsLoopback(address);
  return address;
}

std::string ListenText(const ListenAddress& address, int port) {
  if (address.unix_socket) return fmt::format("{}{}", kUnix, address.path);
  const bool brackets = address.host.find(':') != std::string::npos;
  return brackets ? fmt::format("[{}]:{}", address.host, port) : fmt::format("{}:{}", address.host, port);
}

absl::Status CheckPlainText(const ListenAddress& address, bool insecure) {
  if (address.local || insecure) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("address {}: it can be reached from other machines, and calls are plain text without a "
                  "password: whoever reaches it can run "
                  "programs as this user; listen on unix:PATH or 127.0.0.1:PORT, or give --insecure on a "
                  "network that you trust",
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
      "{} is an address of this machine's own loopback: other machines cannot reach it; listen on "
      "0.0.0.0:PORT or on an address of a network",
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

}  // namespace autocfg
