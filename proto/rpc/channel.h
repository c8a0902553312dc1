// Channels to a coordinator: one place for what every client of it sets. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace autocfg {

// Calibrations of large spaces exceed gRPC's 4 MiB.
inline constexpr int kMaxReceivedBytes = 64 << 20;
inline constexpr int kMaxSentBytes = 16 << 20;

// InvalidArgument unless it is an address (proto/rpc/address.h) with a port of its own; also where it is not
// local and `insecure` (--insecure) is not given, since all is sent as plain text.
absl::Status CheckTarget(const std::string& target, bool insecure);

// Keepalive, bounds of messages, pauses between attempts to connect.
grpc::ChannelArguments ClientArguments();

// Connects with the first call. Refuses what CheckTarget refuses.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& target, bool insecure);

// The pause before a call that was not answered is made again: `seconds`, or shorter where a connection that
// was broken is there again, or `stop` says so (asked every tenth of a second). Whoever merely sleeps finds
// the connection no better: gRPC looks after one that is broken while somebody waits for it, else every few
// seconds only.
void PauseBeforeRetry(grpc::Channel& channel, double seconds, const std::function<bool()>& stop);

}  // namespace autocfg
