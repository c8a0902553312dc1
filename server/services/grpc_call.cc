#include "server/services/grpc_call.h"

#include <string>

#include "server/store/store.h"

namespace autocfg::server {

Caller CallerOf(const grpc::ServerContextBase& context, const std::string& local_principal) {
  return Caller{.principal = local_principal, .peer = context.peer()};
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  if (IsNoSpace(status)) return {grpc::StatusCode::UNAVAILABLE, std::string(status.message())};
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace autocfg::server
