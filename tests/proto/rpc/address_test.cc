#include "proto/rpc/address.h"

#include "gmock/gmock.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

struct Good {
  const char* text;
  const char* host;  // or path
  int port;
  bool local;
};

TEST(Address, ParsesValidAddresses) {
  for (const Good& good : {Good{"unix:/run/autocfg.sock", "/run/autocfg.sock", 0, true},
                           {"unix:s", "s", 0, true},
                           {"localhost:0", "localhost", 0, true},
                           {"127.0.0.1:7000", "127.0.0.1", 7000, true},
                           {"127.8.9.1:65535", "127.8.9.1", 65535, true},
                           {"[::1]:7000", "::1", 7000, true},
                           {"0.0.0.0:7000", "0.0.0.0", 7000, false},
                           {"[::]:7000", "::", 7000, false},
                           {"10.0.0.3:7000", "10.0.0.3", 7000, false},
                           {"node-1.cluster:7000", "node-1.cluster", 7000, false},
                           {"node_1:7000", "node_1", 7000, false},
                           {"localhost.evil.org:1", "localhost.evil.org", 1, false},
                           {"128.0.0.1:1", "128.0.0.1", 1, false},
                           {"127.0.0.1.evil.org:1", "127.0.0.1.evil.org", 1, false},
                           {"[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", 1, false}}) {
    const auto address = ParseAddress(good.text);
    ASSERT_TRUE(address.ok()) << good.text << ": " << address.status();
    EXPECT_EQ(address->unix_socket ? address->path : address->host, good.host);
    EXPECT_EQ(address->port, good.port) << good.text;
    EXPECT_EQ(address->local, good.local) << good.text;
  }
}

TEST(Address, RejectsInvalidAddressesInOneLine) {
  struct Bad {
    const char* text;
    const char* words;
  };
  for (const Bad& bad : {Bad{"", "the port is missing"},
                         {"localhost", "the port is missing"},
                         {"localhost:", "the port is missing"},
                         {":7000", "the host is missing"},
                         {"localhost:port", "must be a number"},
                         {"localhost:65536", "from 0 to 65535"},
                         {"localhost:-1", "from 0 to 65535"},
                         {"localhost:99999999999999999999", "from 0 to 65535"},
                         {"localhost:+1", "must be a number"},
                         {"localhost:7000 ", "must be a number"},
                         {"::1:7000", "must be in brackets"},
                         {"[::1:7000", "brackets"},
                         {"[]:7000", "brackets"},
                         {"[localhost]:7000", "not an IPv6 address"},
                         {"a b:7000", "the host's name is invalid"},
                         {"http://localhost:7000", "must be in brackets"},
                         {"unix:", "the socket's path is empty"},
                         {"unix:/tmp/a b", "letters, digits"},
                         {"unix:/tmp/a%20b", "letters, digits"},
                         {"host\n:7000", "the host's name is invalid"}}) {
    const absl::Status status = ParseAddress(bad.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.words)) << bad.text;
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace autocfg
