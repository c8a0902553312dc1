// A call as gRPC delivers it: who calls, and the status that the call returns. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"

namespace autocfg::server {

// Identity of a caller. Today, everyone who can reach the server counts as its own user; certificates and
// tokens will extend this.
struct Caller {
  std::string principal;  // owner of what the caller creates
  std::string peer;       // origin of the call, for logs
};

// `local_principal`: principal of callers without credentials. Accepts the contexts of both gRPC interfaces.
Caller CallerOf(const grpc::ServerContextBase& context, const std::string& local_principal);

// Keeps code and message; both libraries use the same code numbers and meanings. A write for which the store
// has no room is UNAVAILABLE: RESOURCE_EXHAUSTED is a limit that the caller has reached. No other code makes
// statuses of gRPC.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace autocfg::server
