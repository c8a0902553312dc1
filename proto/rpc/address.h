// The addresses of coordinators: unix:PATH, HOST:PORT or [IPV6]:PORT, one grammar for who listens and who
// calls. Pure, thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace autocfg {

struct Address {
  bool unix_socket = false;
  std::string path;  // of the socket
  std::string host;  // without brackets
  int port = 0;      // 0: any that is free, of who listens
  // what goes there does not leave the machine: a Unix socket, localhost, 127.0.0.0/8, ::1
  bool local = false;
};

// InvalidArgument says what the text lacks, and the forms that there are. Names other than localhost are
// taken as they are, and not looked up.
absl::StatusOr<Address> ParseAddress(const std::string& text);

}  // namespace autocfg
