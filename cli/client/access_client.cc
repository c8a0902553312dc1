#include "cli/client/access_client.h"

#include <utility>

#include "base/status_macros.h"

namespace autocfg::cli {
namespace {

using AccessStub = v1::AccessService::Stub;

constexpr int kTokenPageSize = 200;
constexpr double kAccessDeadlineSeconds = 20;

}  // namespace

AccessClient::AccessClient(const Endpoint& endpoint)
    : connection_(Connect(endpoint)), stub_(v1::AccessService::NewStub(connection_.channel)) {}

absl::StatusOr<v1::CreateTokenResponse> AccessClient::CreateToken(const v1::Token& token) {
  v1::CreateTokenRequest request;
  *request.mutable_token() = token;
  return Ask<v1::CreateTokenResponse>(connection_, *stub_, &AccessStub::CreateToken, request,
                                      kAccessDeadlineSeconds);
}

absl::StatusOr<std::vector<v1::Token>> AccessClient::ListTokens() {
  std::vector<v1::Token> tokens;
  v1::ListTokensRequest request;
  request.set_page_size(kTokenPageSize);
  do {
    AUTOCFG_ASSIGN_OR_RETURN(
        auto page, Ask<v1::ListTokensResponse>(connection_, *stub_, &AccessStub::ListTokens, request,
                                               kAccessDeadlineSeconds));
    for (auto& token : *page.mutable_tokens()) tokens.push_back(std::move(token));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return tokens;
}

absl::Status AccessClient::DeleteToken(const std::string& name) {
  v1::DeleteTokenRequest request;
  request.set_name(name);
  return Ask<v1::DeleteTokenResponse>(connection_, *stub_, &AccessStub::DeleteToken, request,
                                      kAccessDeadlineSeconds)
      .status();
}

}  // namespace autocfg::cli
