// Where a coordinator is, and how its clients reach it. Plain data; also installed for users of the client
// library, so it includes no other header of the project.
#pragma once

#include <string>

namespace autocfg {

// Paths of files in PEM form, for one end of an encrypted connection. Empty: not given. They are read again
// while a process uses them, so that renewed certificates need no restart.
struct TlsFiles {
  std::string authorities = {};  // those that the other end's certificate must chain to
  std::string certificate = {};  // of this end, with the chain to its authority
  std::string key = {};          // of `certificate`, without a passphrase

  bool given() const { return !authorities.empty() || !certificate.empty() || !key.empty(); }
};

struct Endpoint {
  std::string target = {};  // unix:PATH, HOST:PORT or [IPV6]:PORT
  // Calls are encrypted, and the coordinator must show a certificate for the host in `target`. Ignored for a
  // Unix socket. Without `files.authorities`, the system's authorities decide.
  bool tls = false;
  TlsFiles files = {};
  std::string token = {};  // made by `autocfg token`; sent with each call. Empty: none
  // The file of `token`, which is read again when it changes. Empty: the token stays.
  std::string token_file = {};
};

}  // namespace autocfg
