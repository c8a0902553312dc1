#include "proto/client/rpc.h"

#include "fmt/format.h"
#include "proto/rpc/channel.h"

namespace autocfg {

Connection Connect(const Endpoint& endpoint) { return {endpoint.target, NewChannel(endpoint)}; }

absl::Status ErrorOf(const Connection& connection, const grpc::Status& status) {
  absl::Status said = ToAbsl(status);
  const bool unreachable = absl::IsUnavailable(said) || absl::IsDeadlineExceeded(said);
  if (!unreachable || connection.channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY)
    return said;
  return {said.code(),
          fmt::format("{}: no coordinator answers there ({})", connection.target, status.error_message())};
}

}  // namespace autocfg
