#include "server/services/grpc_call.h"

#include <string>

namespace autocfg::server {

Caller CallerOf(const grpc::ServerContextBase& context, const std::string& local_principal) {
  return Caller{.principal = local_principal, .peer = context.peer()};
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace autocfg::server
