// AccessService: making, listing and deleting the tokens of a coordinator's callers. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "autocfg/v1/access_service.grpc.pb.h"
#include "proto/client/rpc.h"

namespace autocfg::cli {

class AccessClient {
 public:
  explicit AccessClient(const Endpoint& endpoint);

  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const v1::Token& token);
  absl::StatusOr<std::vector<v1::Token>> ListTokens();  // by name
  absl::Status DeleteToken(const std::string& name);

 private:
  const Connection connection_;
  const std::unique_ptr<v1::AccessService::Stub> stub_;
};

}  // namespace autocfg::cli
