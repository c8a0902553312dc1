// Table of listen addresses, and which of them would send plain text off the machine.
#include "server/listen/listen_address.h"

#include "gmock/gmock.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

TEST(ListenAddress, RoundTripsAndDetectsLocalAddresses) {
  for (const auto& [text, local] : {std::pair<const char*, bool>{"unix:/run/autocfg.sock", true},
                                    {"localhost:0", true},
                                    {"127.0.0.1:7000", true},
                                    {"[::1]:7000", true},
                                    {"0.0.0.0:7000", false},
                                    {"[::]:7000", false},
                                    {"node_1.cluster:7000", false}}) {
    const auto address = ParseListenAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(ListenText(*address, address->port), text);
    EXPECT_EQ(CheckPlainText(*address, /*insecure=*/false).ok(), local) << text;
    EXPECT_TRUE(CheckPlainText(*address, /*insecure=*/true).ok());
  }
}

TEST(ListenAddress, NameOfLoopbackIsReported) {
  // The resolver handles this as a name, not a dotted quad. It resolves like a machine's own name if
  // /etc/hosts maps that to 127.0.1.1.
  const auto name = ParseListenAddress("127.1:7000");
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_FALSE(name->local);
  EXPECT_THAT(WhyOutOfReach(*name), HasSubstr("other machines cannot reach it"));
  for (const char* fine :
       {"0.0.0.0:7000", "[::]:7000", "127.0.0.1:7000", "localhost:7000", "unix:/tmp/a", "192.0.2.1:7000"})
    EXPECT_EQ(WhyOutOfReach(*ParseListenAddress(fine)), "") << fine;
}

TEST(ListenAddress, PlainTextErrorExplainsInsecure) {
  const absl::Status status = CheckPlainText(*ParseListenAddress("0.0.0.0:7000"), false);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* words : {"0.0.0.0:7000", "plain text", "--insecure", "run programs as this user"})
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

}  // namespace
}  // namespace autocfg::server
