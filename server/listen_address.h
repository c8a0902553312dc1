// Where a server listens: an address as any other, where port 0 is any that is free. Pure functions but for
// those that ask the system, which say so; thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/rpc/address.h"

namespace autocfg {

using ListenAddress = Address;

// As ParseAddress.
inline absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  return ParseAddress(text);
}

// As it is given to gRPC, with `port` in place of the address's own.
std::string ListenText(const ListenAddress& address, int port);

// InvalidArgument where plain text would leave the machine and `insecure` does not allow it.
absl::Status CheckPlainText(const ListenAddress& address, bool insecure);

// Where a name that is not `local` is one of this machine's loopback addresses alone (as Debian has it for
// the machine's own name): a sentence that says so, since nobody else reaches what listens there. Else empty.
// Asks the system's resolver.
std::string WhyOutOfReach(const ListenAddress& address);

// Why nobody can listen at host and port, as the system says it when it is tried once more; "cannot listen
// there" where it works now.
std::string WhyNotListening(const ListenAddress& address);

}  // namespace autocfg
