// Where a server listens: its address, whose port may be 0 for any free one, and the file of its Unix socket.
// Pure, except for functions that query or change the system, as their comments state; thread-safe.
#pragma once

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
absl::Status CheckPlainText(const ListenAddress& address, bool insecure);

// Returns a warning sentence if a host name that is not `local` resolves only to loopback addresses, because
// then no other machine can connect. Debian configures a machine's own name this way. Else empty. Queries the
// system's resolver.
std::string WhyOutOfReach(const ListenAddress& address);

// Returns the system's reason why listening at host and port fails, from a new attempt. Returns "cannot
// listen there" if the new attempt succeeds.
std::string WhyNotListening(const ListenAddress& address);

// Removes a socket at `path` that nobody listens on. InvalidArgument: the path is empty or too long for a
// socket. FailedPrecondition: a server listens there, or the file is not a socket or belongs to another user.
// NotFound: the directory does not exist.
absl::Status ClearSocketPath(const std::string& path);

// Restricts access to the socket at `path` to its owner (mode 0600).
absl::Status CloseToOthers(const std::string& path);

}  // namespace autocfg::server
