#include "proto/client/rpc.h"

#include <string>

#include "base/os/trace_parent.h"
#include "fmt/format.h"
#include "proto/rpc/channel.h"
#include "proto/rpc/unreachable.h"

namespace autocfg {

Connection Connect(const Endpoint& endpoint) { return {endpoint, NewChannel(endpoint)}; }

absl::Status ErrorOf(const Connection& connection, const grpc::Status& status) {
  absl::Status said = ToAbsl(status);
  const bool unreachable = absl::IsUnavailable(said) || absl::IsDeadlineExceeded(said);
  if (!unreachable || connection.channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY)
    return said;
  const absl::Status why = Unreachable(connection.endpoint, said);
  return {why.code(), fmt::format("{}: {}", connection.endpoint.target, std::string(why.message()))};
}

void AddTrace(grpc::ClientContext& context) {
  context.AddMetadata("traceparent", base::TraceParentText(base::NewSpan(base::OwnTrace())));
}

}  // namespace autocfg
