// Identity of a caller. Today, everyone who can reach the server counts as its own user; certificates and
// tokens will extend this. Thread-safe.
#pragma once

#include <string>

#include "grpcpp/server_context.h"

namespace autocfg::server {

struct Caller {
  std::string principal;  // owner of what the caller creates
  std::string peer;       // origin of the call, for logs
};

// `local_principal`: principal of callers without credentials. Accepts the contexts of both gRPC interfaces.
Caller CallerOf(const grpc::ServerContextBase& context, const std::string& local_principal);

}  // namespace autocfg::server
