// Where a server may listen, as a table; which of that is plain text that may leave the machine.
#include "server/listen_address.h"

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

TEST(ListenAddress, GoodOnesAreTakenApartAndPutTogether) {
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
                           {"localhost.evil.org:1", "localhost.evil.org", 1, false},
                           {"128.0.0.1:1", "128.0.0.1", 1, false},
                           {"127.0.0.1.evil.org:1", "127.0.0.1.evil.org", 1, false},
                           {"[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", 1, false}}) {
    const auto address = ParseListenAddress(good.text);
    ASSERT_TRUE(address.ok()) << good.text << ": " << address.status();
    EXPECT_EQ(address->unix_socket ? address->path : address->host, good.host);
    EXPECT_EQ(address->port, good.port) << good.text;
    EXPECT_EQ(address->local, good.local) << good.text;
    EXPECT_EQ(ListenText(*address, address->port), good.text);
    EXPECT_EQ(CheckPlainText(*address, /*insecure=*/false).ok(), good.local) << good.text;
    EXPECT_TRUE(CheckPlainText(*address, /*insecure=*/true).ok());
  }
}

TEST(ListenAddress, WhatIsWrongIsSaidInOneLine) {
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
                         {"::1:7000", "stands in brackets"},
                         {"[::1:7000", "brackets"},
                         {"[]:7000", "brackets"},
                         {"[localhost]:7000", "no IPv6 address"},
                         {"a b:7000", "not the name"},
                         {"http://localhost:7000", "stands in brackets"},
                         {"unix:", "the socket's path is empty"},
                         {"unix:/tmp/a b", "letters, digits"},
                         {"unix:/tmp/a%20b", "letters, digits"},
                         {"host\n:7000", "not the name"}}) {
    const absl::Status status = ParseListenAddress(bad.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.words)) << bad.text;
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("\n")));
  }
}

TEST(ListenAddress, ANameOfTheLoopbackIsSaid) {
  // A name for the resolver, not a dotted quad: as a machine's own name is where /etc/hosts says 127.0.1.1.
  const auto name = ParseListenAddress("127.1:7000");
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_FALSE(name->local);
  EXPECT_THAT(WhyOutOfReach(*name), HasSubstr("other machines cannot reach it"));
  for (const char* fine :
       {"0.0.0.0:7000", "[::]:7000", "127.0.0.1:7000", "localhost:7000", "unix:/tmp/a", "192.0.2.1:7000"})
    EXPECT_EQ(WhyOutOfReach(*ParseListenAddress(fine)), "") << fine;
}

TEST(ListenAddress, TheRefusalSaysWhatInsecureMeans) {
  const absl::Status status = CheckPlainText(*ParseListenAddress("0.0.0.0:7000"), false);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* words : {"0.0.0.0:7000", "plain text", "--insecure", "run programs as this user"})
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

}  // namespace
}  // namespace autocfg
