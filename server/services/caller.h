// Who makes a call. Today everybody who can reach the server is its own user; certificates and tokens will
// say more here. Thread-safe.
#pragma once

#include <string>

#include "grpcpp/server_context.h"

namespace autocfg {

struct Caller {
  std::string principal;  // owns what it makes
  std::string peer;       // where the call came from, for logs
};

// `local_principal`: of callers whom nothing but reaching the server vouches for. Works for the contexts of
// both of gRPC's interfaces.
Caller CallerOf(const grpc::ServerContextBase& context, const std::string& local_principal);

}  // namespace autocfg
