// A request whose bytes are no message of its type: gRPC ends such a call before it reaches its service, with
// INTERNAL (of the synchronous API) or UNIMPLEMENTED (of the callback API) and no text. This says what is
// wrong instead. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "grpcpp/support/server_interceptor.h"

namespace autocfg {

// For grpc::ServerBuilder: calls of all services that end so are INVALID_ARGUMENT, with a sentence. An error
// of a service itself always has a text.
std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> MalformedCallsSaySo();

}  // namespace autocfg
