#include "cli/rpc.h"

#include "fmt/format.h"

namespace autocfg {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;

}  // namespace

Connection Connect(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return {target, grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments)};
}

absl::Status ErrorOf(const Connection& connection, const grpc::Status& status) {
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const bool unreachable = code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded;
  if (!unreachable || connection.channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY)
    return {code, status.error_message()};
  return {code, fmt::format("{}: no coordinator answers there ({})", connection.target, status.error_message())};
}

}  // namespace autocfg
