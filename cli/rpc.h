// One unary call to a coordinator, with a deadline and an error that names the address. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "proto/rpc/call.h"

namespace autocfg {

// A channel to a coordinator, and what it is called in messages.
struct Connection {
  std::string target;  // e.g. "unix:/path"
  std::shared_ptr<grpc::Channel> channel;
};

// Connects with the first call. Requires a target that CheckTarget (proto/rpc/channel.h) lets pass, insecure
// ones as well: that is the caller's to ask.
Connection Connect(const std::string& target);

// Unavailable and DeadlineExceeded, where it is the connection that failed, say that nobody answers at the
// target; others are the server's own words.
absl::Status ErrorOf(const Connection& connection, const grpc::Status& status);

// `method`: of `stub`, such as &v1::StudyService::Stub::GetStudy.
template <typename Response, typename Stub, typename Request, typename Method>
absl::StatusOr<Response> Ask(const Connection& connection, Stub& stub, Method method, const Request& request,
                             double deadline_s) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(deadline_s));
  Response response;
  if (const grpc::Status status = (stub.*method)(&context, request, &response); !status.ok())
    return ErrorOf(connection, status);
  return response;
}

}  // namespace autocfg
