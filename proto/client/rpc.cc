#include "proto/client/rpc.h"

#include "base/os/trace_parent.h"
#include "fmt/format.h"
#include "proto/rpc/channel.h"

namespace autocfg {

Connection Connect(const Endpoint& endpoint) { return {endpoint.target, endpoint.tls, NewChannel(endpoint)}; }

absl::Status ErrorOf(const Connection& connection, const grpc::Status& status) {
  absl::Status said = ToAbsl(status);
  const bool unreachable = absl::IsUnavailable(said) || absl::IsDeadlineExceeded(said);
  if (!unreachable || connection.channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY)
    return said;
  // A coordinator that expects encrypted calls closes the connection.
  const bool closed =
      !connection.encrypted && status.error_message().find("Socket closed") != std::string::npos;
  return {said.code(),
          fmt::format("{}: no coordinator answers there ({}){}", connection.target, status.error_message(),
                      closed ? "; if it encrypts calls, give --tls-ca" : "")};
}

void AddTrace(grpc::ClientContext& context) {
  context.AddMetadata("traceparent", base::TraceParentText(base::NewSpan(base::OwnTrace())));
}

}  // namespace autocfg
