// Calls that gRPC ends before they reach a service, with no text: a request whose bytes are no message of
// its type, with INTERNAL (of the synchronous API) or UNIMPLEMENTED (of the callback API), and a method that
// there is not, with UNIMPLEMENTED. This says what is wrong. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "grpcpp/support/server_interceptor.h"

namespace autocfg {

// For grpc::ServerBuilder: with a sentence, the first are INVALID_ARGUMENT and the second UNIMPLEMENTED. An
// error of a service itself always has a text.
std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> MalformedCallsSaySo();

}  // namespace autocfg
