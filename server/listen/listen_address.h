// Where a server listens: its address, whose port may be 0 for any free one. Pure, except for functions that
// query the system, as their comments state; thread-safe.
#pragma once

#include <netdb.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/rpc/address.h"

namespace autocfg::server {

using ListenAddress = Address;

// Same as ParseAddress.
inline absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  return ParseAddress(text);
}

// Formats the address for gRPC, with `port` instead of the address's own port.
std::string ListenText(const ListenAddress& address, int port);

// Returns InvalidArgument if plain text would leave the machine and `insecure` is false.
absl::Status CheckPlainText(const ListenAddress& address, bool insecure, bool tokens = false);

// Returns a warning sentence if a host name that is not `local` resolves only to loopback addresses, because
// then no other machine can connect. Debian configures a machine's own name this way. Else empty. Queries the
// system's resolver.
std::string WhyOutOfReach(const ListenAddress& address);

struct AddressesDeleter {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesDeleter>;

// Returns the addresses of the host and port to listen on, at least one. Queries the system's resolver.
// Unavailable, with the resolver's reason: there are none.
absl::StatusOr<Addresses> Resolve(const ListenAddress& address);

}  // namespace autocfg::server
