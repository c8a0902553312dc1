#include "server/services/status.h"

#include <string>

#include "fmt/format.h"

namespace autocfg::server {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

grpc::Status NotSupportedYet(const char* what) {
  return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, fmt::format("{} is not supported yet", what));
}

}  // namespace autocfg::server
