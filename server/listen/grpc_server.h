// What a gRPC server needs besides its services: credentials, connections, and texts for the calls that gRPC
// rejects before they reach a service. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/server_interceptor.h"
#include "proto/rpc/endpoint.h"
#include "server/listen/listen_address.h"
#include "server/listen/listener.h"

namespace autocfg::server {

// How callers are to show who they are.
struct Admission {
  bool tokens = false;    // by a token, except over a Unix socket
  bool insecure = false;  // not at all, although other machines reach the address
};

// Returns the server's credentials for an address: encrypted with a certificate in `tls`, except on a Unix
// socket. InvalidArgument: a file of `tls` cannot be used; or other machines reach the address, and calls
// there would be plain text, or need neither a token nor a certificate.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsFor(const ListenAddress& address,
                                                                        const TlsFiles& tls,
                                                                        const Admission& admission);

// Lets a server take its connections from the returned handler. The server must start before the first
// connection; a connection after its shutdown is not served.
Listener::Handler TakeConnections(grpc::ServerBuilder& builder,
                                  std::shared_ptr<grpc::ServerCredentials> credentials);

// Adds error texts to calls that gRPC rejects, for grpc::ServerBuilder. gRPC gives them no text: requests
// that do not parse fail with INTERNAL (synchronous API) or UNIMPLEMENTED (callback API), and unknown methods
// with UNIMPLEMENTED. With a text, they get INVALID_ARGUMENT and UNIMPLEMENTED. Errors of a service itself
// always have a text and stay unchanged.
std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> MalformedCallsSaySo();

}  // namespace autocfg::server
