#include "proto/rpc/channel.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "fmt/format.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "proto/rpc/call.h"

namespace autocfg {
namespace {

constexpr std::string_view kUnix = "unix:";

// A coordinator allows a ping every 5 s while a call is under way (server/coordinator.cc).
constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kFirstPauseMs = 100;
constexpr int kLongestPauseMs = 2'000;
constexpr int kConnectLimitMs = 5'000;
constexpr double kSliceSeconds = 0.1;

// The host of HOST:PORT, without the brackets of an IPv6 address; empty optional where it is none.
std::optional<std::string> HostOf(std::string_view target) {
  const auto colon = target.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const std::string_view digits = target.substr(colon + 1);
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 1 || port > 65535)
    return std::nullopt;
  std::string_view host = target.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    in6_addr address{};
    if (inet_pton(AF_INET6, std::string(host).c_str(), &address) != 1) return std::nullopt;
    return std::string(host);
  }
  const bool plain = std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
  if (!plain) return std::nullopt;
  return std::string(host);
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return (ntohl(address.s_addr) >> 24) == 127;
  in6_addr long_address{};
  return inet_pton(AF_INET6, host.c_str(), &long_address) == 1 && IN6_IS_ADDR_LOOPBACK(&long_address);
}

// What is shown of an address, which comes from outside.
std::string Shown(const std::string& target) {
  std::string shown = target.substr(0, 200);
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return std::isprint(c) == 0; }, '?');
  return shown;
}

}  // namespace

bool IsLocalTarget(const std::string& target) {
  if (std::string_view(target).starts_with(kUnix)) return true;
  const auto host = HostOf(target);
  return host && IsLoopback(*host);
}

absl::Status CheckTarget(const std::string& target, bool insecure) {
  const bool unix_socket = std::string_view(target).starts_with(kUnix);
  if (unix_socket ? target.size() == kUnix.size() : !HostOf(target)) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\" is not the address of a coordinator; give unix:PATH or HOST:PORT", Shown(target)));
  }
  if (insecure || IsLocalTarget(target)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is on another machine, and there is no encryption yet: who is between can read and "
                  "change all; give --insecure where that is accepted",
                  target));
}

grpc::ChannelArguments ClientArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  arguments.SetMaxSendMessageSize(kMaxSentBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // a parked call sends none
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstPauseMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestPauseMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   kConnectLimitMs);                // in spite of its name: how long one attempt may take
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a proxy in the environment is for the web
  return arguments;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& target, bool insecure) {
  if (absl::Status status = CheckTarget(target, insecure); !status.ok()) return status;
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), ClientArguments());
}

void PauseBeforeRetry(grpc::Channel& channel, double seconds, const std::function<bool()>& stop) {
  const bool connected = channel.GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
  const auto end = DeadlineIn(seconds);
  while (std::chrono::system_clock::now() < end && !stop()) {
    const auto slice = std::min(end, DeadlineIn(kSliceSeconds));
    if (connected) {
      std::this_thread::sleep_until(slice);
    } else if (channel.WaitForConnected(slice)) {
      return;
    }
  }
}

}  // namespace autocfg
