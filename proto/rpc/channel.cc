#include "proto/rpc/channel.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "fmt/format.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "proto/rpc/address.h"
#include "proto/rpc/call.h"

namespace autocfg {
namespace {

// The coordinator allows one ping per 5 s while a call is in flight (server/coordinator/coordinator.cc).
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kFirstPauseMs = 100;
constexpr int kLongestPauseMs = 2'000;
constexpr int kConnectLimitMs = 5'000;
constexpr double kSliceSeconds = 0.1;

}  // namespace

absl::Status CheckTarget(const std::string& target, bool insecure) {
  const auto address = ParseAddress(target);
  if (!address.ok()) return address.status();
  if (!address->unix_socket && address->port == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "address {}: port 0 cannot be called; give the port that the coordinator says it listens on",
        target));
  }
  if (insecure || address->local) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is on another machine, and calls are not encrypted: anyone on the network path can "
                  "read and change them; give --insecure to accept that",
                  target));
}

void KeepGrpc() {
  static const bool kept = (grpc_init(), true);
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

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& target, bool insecure) {
  if (absl::Status status = CheckTarget(target, insecure); !status.ok()) return status;
  KeepGrpc();
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), ClientArguments());
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
