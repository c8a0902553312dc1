// Channels to a coordinator, with the settings shared by all clients. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/channel_arguments.h"
#include "proto/rpc/endpoint.h"

namespace autocfg {

// Larger than gRPC's 4 MiB default, which calibrations of large spaces exceed.
inline constexpr int kMaxReceivedBytes = 64 << 20;
inline constexpr int kMaxSentBytes = 16 << 20;

// Metadata in which a call carries the caller's token, as RFC 6750 says, and what precedes the token there.
inline constexpr char kTokenKey[] = "authorization";
inline constexpr char kTokenPrefix[] = "Bearer ";

// Part of the message of a call that the role of its token does not include: PERMISSION_DENIED, which a
// database that cannot be written also causes.
inline constexpr char kRoleTooLow[] = "may not call it";

// Returns whether a coordinator refused a call for its token: it has none, an unknown one, or one of a role
// that does not include the call.
bool IsRefused(const absl::Status& status);

// Returns InvalidArgument unless the target is an address (proto/rpc/address.h) with a non-zero port, and the
// files of certificates can be used. Also rejects plain text to another machine unless `insecure`
// (--insecure) is set.
absl::Status CheckEndpoint(const Endpoint& endpoint, bool insecure);

// Keeps gRPC initialized until the process ends. Otherwise gRPC cleans up with its last object, and waits
// there forever if it could not start one of its threads. Also silences gRPC's own log, which repeats for
// each connection attempt what the calls' errors say; the environment variable GRPC_VERBOSITY keeps it.
// Idempotent.
void KeepGrpc();

// Sets keepalive, message size limits and reconnect backoff.
grpc::ChannelArguments ClientArguments();

// Returns a channel that connects on its first call. Calls KeepGrpc. Requires: CheckEndpoint.
std::shared_ptr<grpc::Channel> NewChannel(const Endpoint& endpoint);

// Same as NewChannel; fails as CheckEndpoint does.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const Endpoint& endpoint, bool insecure);

// Pauses before an unanswered call is retried. Returns after `seconds`, or earlier if a broken connection is
// restored or `stop` returns true (polled every 0.1 s). A plain sleep would not help: gRPC restores a broken
// connection promptly only while someone waits for it, otherwise only every few seconds.
void PauseBeforeRetry(grpc::Channel& channel, double seconds, const std::function<bool()>& stop);

}  // namespace autocfg
