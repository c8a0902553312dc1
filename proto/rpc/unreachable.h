// Errors of calls that reached no coordinator. Pure, thread-safe.
#pragma once

#include "absl/status/status.h"
#include "proto/rpc/endpoint.h"

namespace autocfg {

// Returns the error with what gRPC says about the connection, and with what may help: options of certificates
// that are missing or wrong. The caller adds the address. Keeps the code.
absl::Status Unreachable(const Endpoint& endpoint, const absl::Status& said);

}  // namespace autocfg
