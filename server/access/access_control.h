// Who calls, and whether they may. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "autocfg/v1/access_service.pb.h"
#include "autocfg/v1/study_service.pb.h"
#include "grpcpp/security/auth_metadata_processor.h"
#include "grpcpp/server_context.h"
#include "server/access/audit_log.h"
#include "server/access/token_table.h"

namespace autocfg::server {

struct Caller {
  std::string principal = {};  // owner of what the caller creates
  v1::Role role = v1::ROLE_ADMIN;
  std::string token = {};  // its name; empty: the caller shows none
  std::string peer = {};   // origin of the call, for logs
};

class AccessControl {
 public:
  struct Options {
    std::string local_principal;  // of callers who show neither a token nor a certificate
    bool tokens = false;          // calls need a token, except over a Unix socket
  };
  // `tokens` must outlive it. `audit` may be null.
  AccessControl(const TokenTable& tokens, AuditLog* audit, Options options);

  // Returns who made a call that was admitted. Over a Unix socket, or if no token is needed, an
  // administrator: named by its certificate, or else `local_principal`.
  Caller CallerOf(const grpc::ServerContextBase& context) const;

  // Returns whether calls need a token, except over a Unix socket.
  bool needs_tokens() const { return options_.tokens; }

  // Decides about a call from its method ("/package.Service/Method") and its metadata `authorization`; logs a
  // refusal, with the caller's address. Unauthenticated: it has no token, or one that is unknown or has
  // expired. PermissionDenied: the token's role is too low.
  absl::Status Admit(std::string_view method, std::optional<std::string_view> authorization,
                     const std::string& peer = "") const;

  // Decides the same about a call that was admitted and still runs: its token may have been deleted since, or
  // have expired.
  absl::Status StillAdmits(const grpc::ServerContextBase& context, std::string_view method) const;

  // Returns what makes gRPC ask Admit before a call reaches its service; it must not outlive this object.
  std::shared_ptr<grpc::AuthMetadataProcessor> Processor() const;

 private:
  absl::StatusOr<v1::Token> TokenOf(std::string_view method,
                                    std::optional<std::string_view> authorization) const;

  const TokenTable& tokens_;
  AuditLog* const audit_;
  const Options options_;
};

// PermissionDenied unless the caller owns the study or is an administrator.
absl::Status MayChange(const Caller& caller, const v1::Study& study);

}  // namespace autocfg::server
