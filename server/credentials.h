// What the calls at an address are secured with: the one place where certificates and tokens will come in.
// Thread-safe.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/listen_address.h"

namespace autocfg {

// InvalidArgument where all there is is plain text, it would leave the machine, and `insecure` does not allow
// that.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsFor(const ListenAddress& address,
                                                                        bool insecure);

}  // namespace autocfg
