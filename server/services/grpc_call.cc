#include "server/services/grpc_call.h"

#include <string>

#include "fmt/format.h"

namespace autocfg::server {

Caller CallerOf(const grpc::ServerContextBase& context, const std::string& local_principal) {
  return Caller{.principal = local_principal, .peer = context.peer()};
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

grpc::Status NotSupportedYet(const char* what) {
  return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, fmt::format("{} is not supported yet", what));
}

}  // namespace autocfg::server
