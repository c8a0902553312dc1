// The options of a program that say how it reaches a coordinator. Reads the environment and files;
// thread-safe while the environment does not change.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proto/rpc/endpoint.h"

namespace autocfg {

struct EndpointOptions {
  bool insecure = false;        // --insecure: plain text to another machine is allowed
  bool tls = false;             // --tls: encrypt; implied by each of the next three
  TlsFiles files = {};          // --tls-ca, --tls-cert, --tls-key
  std::string token_file = {};  // --token-file

  bool secured() const { return tls || files.given() || !token_file.empty(); }
};

// Adds the options to a parser of CLI11. `options` must outlive the parsing.
template <typename App>
void AddEndpointOptions(App& app, EndpointOptions& options) {
  app.add_flag("--insecure", options.insecure, "send plain text to a coordinator on another machine");
  app.add_flag("--tls", options.tls, "encrypt calls, and trust the system's certificate authorities");
  app.add_option("--tls-ca", options.files.authorities,
                 "encrypt calls, and trust the authorities of this PEM file (default: $AUTOCFG_TLS_CA)");
  app.add_option("--tls-cert", options.files.certificate,
                 "a certificate to show to the coordinator (default: $AUTOCFG_TLS_CERT)");
  app.add_option("--tls-key", options.files.key, "the key of --tls-cert (default: $AUTOCFG_TLS_KEY)");
  app.add_option("--token-file", options.token_file,
                 "a file with a token of `autocfg token` (default: $AUTOCFG_TOKEN_FILE)");
}

// Returns the endpoint that the options describe, checked by CheckEndpoint. What they leave out comes from
// the environment. A Unix socket needs no certificate; it gets a token only from `token_file`.
// InvalidArgument, with the name of the option or variable: a file cannot be used.
absl::StatusOr<Endpoint> EndpointFor(const std::string& target, const EndpointOptions& options);

}  // namespace autocfg
