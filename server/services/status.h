// Converts absl statuses to gRPC statuses; no other code does. Pure, thread-safe.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace autocfg::server {

// Keeps code and message. Both libraries use the same code numbers and meanings.
grpc::Status ToGrpc(const absl::Status& status);

// Returns UNIMPLEMENTED: "`what` is not supported yet".
grpc::Status NotSupportedYet(const char* what);

}  // namespace autocfg::server
