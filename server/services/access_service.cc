#include "server/services/access_service.h"

#include <utility>

#include "base/status_macros.h"
#include "proto/rpc/call.h"
#include "server/services/list_page.h"

namespace autocfg::server {

grpc::Status AccessServiceImpl::CreateToken(grpc::ServerContext*, const v1::CreateTokenRequest* request,
                                            v1::CreateTokenResponse* response) {
  auto made = tokens_.Create(request->token());
  if (!made.ok()) return ToGrpc(made.status());
  *response = *std::move(made);
  return grpc::Status::OK;
}

absl::Status AccessServiceImpl::List(const v1::ListTokensRequest& request,
                                     v1::ListTokensResponse& response) const {
  AUTOCFG_ASSIGN_OR_RETURN(auto page, ListPage::Of(request.page_size()));
  for (v1::Token& token : tokens_.List()) {
    if (token.name() <= request.page_token()) continue;
    if (!page.Takes(token)) {
      response.set_next_page_token(response.tokens().rbegin()->name());
      break;
    }
    *response.add_tokens() = std::move(token);
  }
  return absl::OkStatus();
}

grpc::Status AccessServiceImpl::ListTokens(grpc::ServerContext*, const v1::ListTokensRequest* request,
                                           v1::ListTokensResponse* response) {
  return ToGrpc(List(*request, *response));
}

grpc::Status AccessServiceImpl::DeleteToken(grpc::ServerContext*, const v1::DeleteTokenRequest* request,
                                            v1::DeleteTokenResponse*) {
  return ToGrpc(tokens_.Delete(request->name()));
}

}  // namespace autocfg::server
