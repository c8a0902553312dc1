// Channels to a coordinator, with the settings shared by all clients. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace autocfg {

// Larger than gRPC's 4 MiB default, which calibrations of large spaces exceed.
inline constexpr int kMaxReceivedBytes = 64 << 20;
inline constexpr int kMaxSentBytes = 16 << 20;

// Returns InvalidArgument unless `target` is an address (proto/rpc/address.h) with a non-zero port. Also
// rejects non-local addresses unless `insecure` (--insecure) is set, because traffic is plain text.
absl::Status CheckTarget(const std::string& target, bool insecure);

// Keeps gRPC initialized until the process ends. Otherwise gRPC cleans up with its last object, and waits
// there forever if it could not start one of its threads. Idempotent.
void KeepGrpc();

// Sets keepalive, message size limits and reconnect backoff.
grpc::ChannelArguments ClientArguments();

// Connects on the first call. Calls KeepGrpc. Fails as CheckTarget does.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& target, bool insecure);

// Pauses before an unanswered call is retried. Returns after `seconds`, or earlier if a broken connection is
// restored or `stop` returns true (polled every 0.1 s). A plain sleep would not help: gRPC restores a broken
// connection promptly only while someone waits for it, otherwise only every few seconds.
void PauseBeforeRetry(grpc::Channel& channel, double seconds, const std::function<bool()>& stop);

}  // namespace autocfg
