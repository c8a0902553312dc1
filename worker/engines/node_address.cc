#include "worker/engines/node_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "base/json_reader.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/rpc/address.h"

namespace autocfg::worker {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string TextOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &address, sizeof in);
    ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &address, sizeof in);
    ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
  }
  return text;
}

struct Card {
  std::string address, host;
  std::int64_t port = 0;
  std::int64_t first_rank = 0;
};

std::optional<Card> ParseCard(const std::string& text) {
  const auto json = base::ParseJson("card", text);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  Card card;
  base::FieldReader fields("card", *json);
  fields.String("address", card.address);
  fields.String("host", card.host);
  fields.Size("port", card.port, 0);
  fields.Size("first_rank", card.first_rank, 0);
  if (!fields.Finish().ok() || !IsAddress(card.address) || card.port > 65535) return std::nullopt;
  return card;
}

}  // namespace

absl::StatusOr<std::string> OwnAddress(const std::string& coordinator) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto parsed, ParseAddress(coordinator));
  if (parsed.unix_socket || parsed.local) return std::string(kLoopback);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(parsed.port);
  if (const int error = ::getaddrinfo(parsed.host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(fmt::format("the address of {} cannot be found: {}; give --address",
                                              base::Printable(parsed.host), ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
    // Connecting a datagram socket sends nothing; it chooses the route.
    const base::UniqueFd socket(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (!socket.ok() || ::connect(socket.get(), each->ai_addr, each->ai_addrlen) != 0 ||
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
      continue;
    if (std::string text = TextOf(own); !text.empty()) return text;
  }
  return absl::UnavailableError(
      fmt::format("no route leads to {}; give --address", base::Printable(parsed.host)));
}

bool IsAddress(const std::string& text) {
  constexpr std::size_t kLongest = 255;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == ':' || c == '-';
  };
  return !text.empty() && text.size() <= kLongest && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), is_plain);
}

bool IsLoopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

absl::StatusOr<FreePort> FreePort::Take() {
  base::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (!socket.ok() || ::bind(socket.get(), plain, size) != 0 ||
      ::getsockname(socket.get(), plain, &size) != 0)
    return absl::UnavailableError(fmt::format("no port is free: {}", std::strerror(errno)));
  return FreePort(std::move(socket), ntohs(address.sin_port));
}

std::string NodeCard(const std::string& address, int port, const std::string& host, int first_rank) {
  return nlohmann::json{{"address", address}, {"port", port}, {"host", host}, {"first_rank", first_rank}}
      .dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<NodePlace> PlaceAmong(const std::vector<std::string>& cards, int first_rank) {
  NodePlace place;
  std::set<std::int64_t> nodes;
  std::string first_host;
  std::string other_host;
  for (const std::string& text : cards) {
    const auto card = ParseCard(text);
    if (!card)
      return absl::InternalError(
          fmt::format("a worker of the job sent '{}' in place of its address; run the "
                      "same build on all workers",
                      base::Printable(text)));
    if (nodes.empty()) {
      place.master_address = card->address;
      place.master_port = static_cast<int>(card->port);
      first_host = card->host;
    }
    if (card->host != first_host) other_host = card->host;
    nodes.insert(card->first_rank);
  }
  if (!nodes.contains(first_rank)) return absl::InternalError("this worker's own address did not come back");
  place.nodes = static_cast<int>(nodes.size());
  place.node_rank = static_cast<int>(std::distance(nodes.begin(), nodes.find(first_rank)));
  if (!other_host.empty() && IsLoopback(place.master_address)) {
    return absl::FailedPreconditionError(fmt::format(
        "the first worker, on {}, says that the others reach it at {}, but {} is another machine; "
        "start it with --address and an address of its network",
        base::Printable(first_host), place.master_address, base::Printable(other_host)));
  }
  return place;
}

}  // namespace autocfg::worker
