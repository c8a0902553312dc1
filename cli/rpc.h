// One unary call to a coordinator, with a deadline and an error that names the address. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace autocfg {

// A channel to a coordinator, and what it is called in messages.
struct Connection {
  std::string target;  // e.g. "unix:/path"
  std::shared_ptr<grpc::Channel> channel;
};

Connection Connect(const std::string& target);

// Unavailable and DeadlineExceeded, where it is the connection that failed, say that nobody answers at the target; others are the server's own words.
absl::Status ErrorOf(const Connection& connection, const grpc::Status& status);

// `method`: of `stub`, such as &v1::StudyService::Stub::GetStudy.
template <typename Response, typename Stub, typename Request, typename Method>
absl::StatusOr<Response> Call(const Connection& connection, Stub& stub, Method method, const Request& request,
                              std::chrono::seconds deadline) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  Response response;
  if (const grpc::Status status = (stub.*method)(&context, request, &response); !status.ok()) return ErrorOf(connection, status);
  return response;
}

}  // namespace autocfg
