#include "server/listen/grpc_server.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "proto/rpc/tls_files.h"

namespace autocfg::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerInterceptorFactoryInterface;
using grpc::experimental::ServerRpcInfo;

// `method` has the form "/package.Service/Method".
bool Exists(std::string method) {
  if (!method.starts_with('/')) return false;
  method.erase(0, 1);
  std::replace(method.begin(), method.end(), '/', '.');
  return google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(method) != nullptr;
}

class MalformedCall final : public Interceptor {
 public:
  explicit MalformedCall(std::string method) : method_(std::move(method)) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      const bool by_grpc = status.error_code() == grpc::StatusCode::INTERNAL ||
                           status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
      if (!by_grpc || !status.error_message().empty()) {
        // OK, or an error of a service itself
      } else if (!Exists(method_)) {
        if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
          methods->ModifySendStatus({grpc::StatusCode::UNIMPLEMENTED,
                                     fmt::format("unknown method {}; see the server's reflection", method_)});
        }
      } else {
        methods->ModifySendStatus(
            {grpc::StatusCode::INVALID_ARGUMENT,
             fmt::format("{}: the request cannot be parsed as its message type; see the server's reflection",
                         method_)});
      }
    }
    methods->Proceed();
  }

 private:
  const std::string method_;
};

class Factory final : public ServerInterceptorFactoryInterface {
 public:
  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return new MalformedCall(info->method());
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> CredentialsFor(const ListenAddress& address,
                                                                        const TlsFiles& tls,
                                                                        const Admission& admission) {
  if (address.unix_socket) return grpc::InsecureServerCredentials();
  if (!tls.given()) {
    // Not --insecure: tokens in plain text are secrets for everyone on the way.
    AUTOCFG_RETURN_IF_ERROR(CheckPlainText(address, admission.insecure, admission.tokens));
    // Only these can ask for tokens without encryption.
    return admission.tokens ? grpc::experimental::LocalServerCredentials(LOCAL_TCP)
                            : grpc::InsecureServerCredentials();
  }
  AUTOCFG_RETURN_IF_ERROR(CheckTlsFiles(tls, {.authorities = "--tls-client-ca"}));
  if (tls.certificate.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert is missing; clients that show a certificate need one of the server too");
  }
  if (tls.authorities.empty() && !admission.tokens && !admission.insecure && !address.local) {
    return absl::InvalidArgumentError(fmt::format(
        "address {}: calls are encrypted, but everyone who reaches it may make them; give --tokens or "
        "--tls-client-ca, or --insecure on a network that you trust",
        ListenText(address, address.port)));
  }
  return TlsServer(tls);
}

Listener::Handler TakeConnections(grpc::ServerBuilder& builder,
                                  std::shared_ptr<grpc::ServerCredentials> credentials) {
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;
  // Shared, because a std::function must be copyable.
  const std::shared_ptr<Acceptor> acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, std::move(credentials));
  return [acceptor](base::UniqueFd connection) {
    Acceptor::NewConnectionParameters parameters;
    parameters.fd = connection.Release();
    acceptor->HandleNewConnection(&parameters);
  };
}

std::vector<std::unique_ptr<ServerInterceptorFactoryInterface>> MalformedCallsSaySo() {
  std::vector<std::unique_ptr<ServerInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<Factory>());
  return factories;
}

}  // namespace autocfg::server
