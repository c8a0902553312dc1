#include "server/access/access_control.h"

#include <map>
#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/rpc/call.h"
#include "proto/rpc/channel.h"
#include "server/access/rights.h"

namespace autocfg::server {
namespace {

constexpr std::string_view kUnixPeer = "unix:";
constexpr const char* kCommonName = "x509_common_name";

// Returns the peer as gRPC names it ("ipv6:[::1]:46564"), whose brackets gRPC percent-encodes.
std::string PeerText(const std::string& peer) {
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

std::string_view View(const grpc::string_ref& text) { return {text.data(), text.size()}; }

std::optional<std::string_view> ValueOf(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata,
                                        const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  return View(found->second);
}

class AdmitCalls final : public grpc::AuthMetadataProcessor {
 public:
  explicit AdmitCalls(const AccessControl& control) : control_(control) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata*,
                       OutputMetadata*) override {
    const std::string_view method = ValueOf(metadata, ":path").value_or("");
    return ToGrpc(control_.Admit(method, ValueOf(metadata, kTokenKey)));
  }

 private:
  const AccessControl& control_;
};

}  // namespace

AccessControl::AccessControl(const TokenTable& tokens, AuditLog* audit, Options options)
    : tokens_(tokens), audit_(audit), options_(std::move(options)) {}

absl::StatusOr<v1::Token> AccessControl::TokenOf(std::string_view method,
                                                 std::optional<std::string_view> authorization) const {
  if (!authorization || !authorization->starts_with(kTokenPrefix)) {
    return absl::UnauthenticatedError(fmt::format(
        "{}: the call has no token; give --token-file with one that `autocfg token create` has made",
        base::Printable(method)));
  }
  authorization->remove_prefix(std::string_view(kTokenPrefix).size());
  if (auto token = tokens_.Find(*authorization)) return *std::move(token);
  return absl::UnauthenticatedError(
      fmt::format("{}: the call's token is unknown, deleted or expired; ask an administrator of the "
                  "coordinator for another",
                  base::Printable(method)));
}

absl::Status AccessControl::Admit(std::string_view method, std::optional<std::string_view> authorization,
                                  const std::string& peer) const {
  if (RightOf(method) == Right::kPublic) return absl::OkStatus();
  const auto token = TokenOf(method, authorization);
  absl::Status status = token.ok() ? CheckRight(token->role(), method) : token.status();
  if (!status.ok() && audit_ != nullptr) {
    audit_->WriteRefused({.principal = token.ok() ? token->owner() : "",
                          .token = token.ok() ? token->name() : "",
                          .role = token.ok() ? std::string(RoleName(token->role())) : "",
                          .peer = peer,
                          .method = std::string(method),
                          .subject = "",
                          .status = status},
                         absl::Now());
  }
  return status;
}

absl::Status AccessControl::StillAdmits(const grpc::ServerContextBase& context,
                                        std::string_view method) const {
  if (!options_.tokens || context.peer().starts_with(kUnixPeer)) return absl::OkStatus();
  const auto token = TokenOf(method, ValueOf(context.client_metadata(), kTokenKey));
  return token.ok() ? CheckRight(token->role(), method) : token.status();
}

Caller AccessControl::CallerOf(const grpc::ServerContextBase& context) const {
  Caller caller{.principal = options_.local_principal, .peer = PeerText(context.peer())};
  if (caller.peer.starts_with(kUnixPeer)) return caller;
  if (options_.tokens) {
    // Without one, the call was public; it gets the least role.
    const auto token = TokenOf("", ValueOf(context.client_metadata(), kTokenKey));
    caller.role = token.ok() ? token->role() : v1::ROLE_READ;
    caller.principal = token.ok() ? token->owner() : "";
    caller.token = token.ok() ? token->name() : "";
    return caller;
  }
  if (const auto context_of = context.auth_context(); context_of != nullptr) {
    const auto names = context_of->FindPropertyValues(kCommonName);
    if (context_of->IsPeerAuthenticated() && !names.empty()) caller.principal = View(names.front());
  }
  return caller;
}

std::shared_ptr<grpc::AuthMetadataProcessor> AccessControl::Processor() const {
  return std::make_shared<AdmitCalls>(*this);
}

absl::Status MayChange(const Caller& caller, const v1::Study& study) {
  if (caller.role == v1::ROLE_ADMIN || study.owner() == caller.principal) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("{} belongs to {}; ask them, or use a token with the role admin", study.name(),
                  base::Printable(study.owner())));
}

}  // namespace autocfg::server
