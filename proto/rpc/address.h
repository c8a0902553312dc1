// Coordinator addresses: unix:PATH, HOST:PORT or [IPV6]:PORT. Servers and clients share this grammar. Pure,
// thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace autocfg {

struct Address {
  bool unix_socket = false;
  std::string path;  // of the socket
  std::string host;  // without brackets
  int port = 0;      // 0: any free port (servers only)
  // traffic stays on this machine: a Unix socket, localhost, 127.0.0.0/8, ::1
  bool local = false;
};

// InvalidArgument names the defect and lists the accepted forms. Host names other than localhost are not
// resolved.
absl::StatusOr<Address> ParseAddress(const std::string& text);

}  // namespace autocfg
