#include "proto/rpc/channel.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/os/host.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/client_interceptor.h"
#include "proto/rpc/address.h"
#include "proto/rpc/call.h"
#include "proto/rpc/tls_files.h"
#include "proto/rpc/token_file.h"

namespace autocfg {
namespace {

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// The coordinator allows one ping per 5 s while a call is in flight (server/coordinator/coordinator.cc).
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kFirstPauseMs = 100;
constexpr int kLongestPauseMs = 2'000;
constexpr int kConnectLimitMs = 5'000;
constexpr double kSliceSeconds = 0.1;

// Adds the token to each call. Not a credential of gRPC, which sends none on channels in plain text, such as
// those to this machine.
class TokenSender final : public Interceptor {
 public:
  explicit TokenSender(std::string value) : value_(std::move(value)) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA))
      methods->GetSendInitialMetadata()->emplace(kTokenKey, value_);
    methods->Proceed();
  }

 private:
  const std::string value_;
};

class TokenSenders final : public ClientInterceptorFactoryInterface {
 public:
  explicit TokenSenders(const Endpoint& endpoint) : token_(endpoint.token, endpoint.token_file) {}

  Interceptor* CreateClientInterceptor(ClientRpcInfo*) override {
    return new TokenSender(kTokenPrefix + token_.Latest());
  }

 private:
  FollowedToken token_;
};

}  // namespace

absl::Status CheckEndpoint(const Endpoint& endpoint, bool insecure) {
  const std::string& target = endpoint.target;
  AUTOCFG_ASSIGN_OR_RETURN(const auto address, ParseAddress(target));
  if (!address.unix_socket && address.port == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "address {}: port 0 cannot be called; give the port that the coordinator says it listens on",
        target));
  }
  if (address.unix_socket) return absl::OkStatus();
  if (endpoint.tls) return CheckTlsFiles(endpoint.files);
  if (insecure || address.local) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} is on another machine, and calls are not encrypted: anyone on the network path can "
      "read and change them; give --tls-ca for a coordinator with a certificate, or --insecure to "
      "accept that",
      target));
}

bool IsRefused(const absl::Status& status) {
  return absl::IsUnauthenticated(status) ||
         (absl::IsPermissionDenied(status) && status.message().find(kRoleTooLow) != absl::string_view::npos);
}

void KeepGrpc() {
  static const bool kept = [] {
    grpc_init();
    if (base::Environment("GRPC_VERBOSITY").empty()) gpr_set_log_function([](gpr_log_func_args*) {});
    return true;
  }();
  (void)kept;
}

grpc::ChannelArguments ClientArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  arguments.SetMaxSendMessageSize(kMaxSentBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // a parked call sends no data
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstPauseMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestPauseMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   kConnectLimitMs);                // despite its name: time limit of one connection attempt
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // proxies in the environment are for web traffic
  return arguments;
}

std::shared_ptr<grpc::Channel> NewChannel(const Endpoint& endpoint) {
  KeepGrpc();
  const bool encrypted = endpoint.tls && !endpoint.target.starts_with("unix:");
  std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> interceptors;
  if (!endpoint.token.empty()) interceptors.push_back(std::make_unique<TokenSenders>(endpoint));
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      endpoint.target, encrypted ? TlsChannel(endpoint.files) : grpc::InsecureChannelCredentials(),
      ClientArguments(), std::move(interceptors));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const Endpoint& endpoint, bool insecure) {
  AUTOCFG_RETURN_IF_ERROR(CheckEndpoint(endpoint, insecure));
  return NewChannel(endpoint);
}

void PauseBeforeRetry(grpc::Channel& channel, double seconds, const std::function<bool()>& stop) {
  const bool connected = channel.GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
  using Clock = std::chrono::steady_clock;  // a step of the system's clock must not prolong the pause
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!stop()) {
    const std::chrono::duration<double> left = end - Clock::now();
    if (left.count() <= 0) return;
    const double slice_s = std::min(left.count(), kSliceSeconds);
    if (connected) {
      std::this_thread::sleep_for(std::chrono::duration<double>(slice_s));
    } else if (channel.WaitForConnected(DeadlineIn(slice_s))) {
      return;
    }
  }
}

}  // namespace autocfg
