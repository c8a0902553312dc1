// Adds error texts to calls that gRPC rejects before they reach a service. gRPC gives them no text: requests
// that do not parse fail with INTERNAL (synchronous API) or UNIMPLEMENTED (callback API), and unknown methods
// with UNIMPLEMENTED. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "grpcpp/support/server_interceptor.h"

namespace autocfg::server {

// For grpc::ServerBuilder. Requests that do not parse get INVALID_ARGUMENT, unknown methods UNIMPLEMENTED,
// both with a sentence. Errors of a service itself always have a text and stay unchanged.
std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> MalformedCallsSaySo();

}  // namespace autocfg::server
