// Server credentials for an address: the one place to add certificates and tokens. Thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/listen/listen_address.h"

namespace autocfg::server {

// Returns InvalidArgument if only plain text is available, it would leave the machine, and `insecure` is
// false.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsFor(const ListenAddress& address,
                                                                        bool insecure);

}  // namespace autocfg::server
