// The one place where our statuses become gRPC's. Pure, thread-safe.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace autocfg {

// The same code and message; the codes of both have the same numbers and meanings.
grpc::Status ToGrpc(const absl::Status& status);

// UNIMPLEMENTED: "`what` is not supported yet".
grpc::Status NotSupportedYet(const char* what);

}  // namespace autocfg
