#include "proto/rpc/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/numbers.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kForms = "give unix:PATH, HOST:PORT or [IPV6]:PORT";
constexpr std::size_t kLongestHost = 253;
constexpr int kLargestPort = 65535;

// Shortens outside text and makes it printable for messages.
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

bool IsLoopback(const Address& address) {
  in_addr four{};
  if (inet_pton(AF_INET, address.host.c_str(), &four) == 1) return IsLoopback(four);
  in6_addr six{};
  if (inet_pton(AF_INET6, address.host.c_str(), &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
  return address.host == "localhost";
}

bool AllOf(std::string_view text, std::string_view besides) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || besides.find(c) != std::string_view::npos;
  });
}

}  // namespace

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  Address address;
  if (text.starts_with(kUnix)) {
    address.unix_socket = address.local = true;
    address.path = text.substr(kUnix.size());
    if (address.path.empty()) return Wrong(text, "the socket's path is empty");
    // gRPC parses targets as URIs, in which other characters have a special meaning.
    if (!AllOf(address.path, "/._-+=,@"))
      return Wrong(text, "a socket's path may have letters, digits and /._-+=,@ only");
    return address;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return Wrong(text, "the port is missing");
  const std::string_view port = std::string_view(text).substr(colon + 1);
  if (port.empty()) return Wrong(text, "the port is missing");
  const auto number = base::ParseNumber<int>(port, 0, kLargestPort);
  if (!number) return Wrong(text, fmt::format("the port must be a number from 0 to {}", kLargestPort));
  address.port = *number;
  const std::string_view host = std::string_view(text).substr(0, colon);
  if (host.starts_with('[')) {
    if (host.size() < 3 || !host.ends_with(']'))
      return Wrong(text, "the brackets hold no host or are not closed");
    address.host = host.substr(1, host.size() - 2);
    in6_addr six{};
    if (inet_pton(AF_INET6, address.host.c_str(), &six) != 1)
      return Wrong(text, "the text in brackets is not an IPv6 address");
  } else {
    if (host.empty()) return Wrong(text, "the host is missing");
    if (host.find(':') != std::string_view::npos) return Wrong(text, "an IPv6 address must be in brackets");
    if (host.size() > kLongestHost || !AllOf(host, ".-_")) return Wrong(text, "the host's name is invalid");
    address.host = host;
  }
  address.local = IsLoopback(address);
  return address;
}

}  // namespace autocfg
