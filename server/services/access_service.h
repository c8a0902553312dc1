// AccessService over the table of tokens. Thread-safe.
#pragma once

#include "absl/status/status.h"
#include "autocfg/v1/access_service.grpc.pb.h"
#include "server/access/token_table.h"

namespace autocfg::server {

class AccessServiceImpl final : public v1::AccessService::Service {
 public:
  // `tokens` must outlive it.
  explicit AccessServiceImpl(TokenTable& tokens) : tokens_(tokens) {}

  grpc::Status CreateToken(grpc::ServerContext*, const v1::CreateTokenRequest*,
                           v1::CreateTokenResponse*) override;
  grpc::Status ListTokens(grpc::ServerContext*, const v1::ListTokensRequest*,
                          v1::ListTokensResponse*) override;
  grpc::Status DeleteToken(grpc::ServerContext*, const v1::DeleteTokenRequest*,
                           v1::DeleteTokenResponse*) override;

 private:
  absl::Status List(const v1::ListTokensRequest& request, v1::ListTokensResponse& response) const;

  TokenTable& tokens_;
};

}  // namespace autocfg::server
