#include "proto/rpc/channel.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "grpc/impl/codegen/grpc_types.h"

namespace autocfg {
namespace {

TEST(CheckEndpoint, SocketsAndLoopbackOnlyUnlessInsecure) {
  for (const char* local :
       {"unix:/run/a.sock", "unix:a.sock", "localhost:1", "127.0.0.1:7010", "127.3.2.1:7010", "[::1]:7010"}) {
    EXPECT_TRUE(CheckEndpoint({.target = local}, false).ok()) << local;
  }
  for (const char* other :
       {"node1:7010", "node_1:7010", "10.0.0.1:7010", "0.0.0.0:7010", "[::]:7010", "[fe80::1]:7010",
        "127.0.0.1.example.org:7010", "localhost.example.org:7010", "128.0.0.1:7010"}) {
    EXPECT_TRUE(CheckEndpoint({.target = other}, true).ok()) << other;
    const absl::Status refused = CheckEndpoint({.target = other}, false);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << other;
    const std::string message(refused.message());
    EXPECT_NE(message.find("--insecure"), std::string::npos) << message;
    EXPECT_NE(message.find(other), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(CheckEndpoint, RejectsInvalidAddresses) {
  for (const char* wrong : {"", "unix:", "unix:/tmp/a b", "localhost", "localhost:", ":7010", "localhost:0",
                            "localhost:65536", "localhost:7010x", "local host:1", "dns:///localhost:1",
                            "http://localhost:1", "[::1:7010", "[localhost]:1", "::1:7010", "host\n:1"}) {
    const absl::Status refused = CheckEndpoint({.target = wrong}, true);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << wrong;
    const std::string message(refused.message());
    EXPECT_NE(message.find("; give "), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_FALSE(OpenChannel({.target = wrong}, true).ok()) << wrong;
  }
}

TEST(ClientArguments, StayWithinCoordinatorLimits) {
  const grpc::ChannelArguments arguments = ClientArguments();
  std::map<std::string, int> values;
  const grpc_channel_args args = arguments.c_channel_args();
  for (std::size_t i = 0; i < args.num_args; ++i) {
    if (args.args[i].type == GRPC_ARG_INTEGER) values[args.args[i].key] = args.args[i].value.integer;
  }
  EXPECT_EQ(values.at(GRPC_ARG_KEEPALIVE_TIME_MS), 10'000);
  EXPECT_EQ(values.at(GRPC_ARG_KEEPALIVE_TIMEOUT_MS), 5'000);
  EXPECT_EQ(values.at(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS), 0);
  EXPECT_EQ(values.at(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH), 64 << 20);
  EXPECT_EQ(values.at(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH), 16 << 20);
  EXPECT_EQ(values.at(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS), 100);
  EXPECT_EQ(values.at(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS), 2'000);
}

}  // namespace
}  // namespace autocfg
