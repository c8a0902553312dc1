#include "server/services/caller.h"

namespace autocfg::server {

Caller CallerOf(const grpc::ServerContextBase& context, const std::string& local_principal) {
  return Caller{.principal = local_principal, .peer = context.peer()};
}

}  // namespace autocfg::server
