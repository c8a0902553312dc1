// One unary call to a coordinator, with a deadline and errors that name the address. Thread-safe.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "proto/rpc/call.h"
#include "proto/rpc/endpoint.h"

namespace autocfg {

// A channel to a coordinator, with its address for messages.
struct Connection {
  Endpoint endpoint;
  std::shared_ptr<grpc::Channel> channel;
};

// Returns a channel that connects on its first call. Requires: CheckEndpoint (proto/rpc/channel.h).
Connection Connect(const Endpoint& endpoint);

// Converts a failed call. Unavailable and DeadlineExceeded from a broken connection say that no coordinator
// answers at the target; other errors keep the server's message.
absl::Status ErrorOf(const Connection& connection, const grpc::Status& status);

// Names the trace of this process in a call's metadata: that of the environment variable TRACEPARENT, else
// one that begins with the process.
void AddTrace(grpc::ClientContext& context);

// `method`: a method of `stub`, such as &v1::StudyService::Stub::GetStudy.
template <typename Response, typename Stub, typename Request, typename Method>
absl::StatusOr<Response> Ask(const Connection& connection, Stub& stub, Method method, const Request& request,
                             double deadline_s) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(deadline_s));
  AddTrace(context);
  Response response;
  if (const grpc::Status status = (stub.*method)(&context, request, &response); !status.ok())
    return ErrorOf(connection, status);
  return response;
}

}  // namespace autocfg
