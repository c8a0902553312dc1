#include "server/listen/credentials.h"

namespace autocfg::server {

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsFor(const ListenAddress& address,
                                                                        bool insecure) {
  if (absl::Status status = CheckPlainText(address, insecure); !status.ok()) return status;
  return grpc::InsecureServerCredentials();
}

}  // namespace autocfg::server
