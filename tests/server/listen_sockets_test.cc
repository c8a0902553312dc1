// The sockets of an address: which exist, who can use them, and what is left of them.
#include "server/listen/listen_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/server/client_socket.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

absl::StatusOr<ListenSockets> Open(const std::string& text) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto address, ParseListenAddress(text));
  return ListenSockets::Open(address);
}

bool Connects(const std::string& host, int port) { return ConnectTo(host, port).ok(); }

TEST(ListenSockets, FreePortIsReportedAndOpen) {
  const auto sockets = Open("127.0.0.1:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_GT(sockets->port(), 0);
  EXPECT_EQ(sockets->sockets().size(), 1u);
  EXPECT_TRUE(Connects("127.0.0.1", sockets->port()));
}

TEST(ListenSockets, SecondUserOfAPortIsRefused) {
  const auto first = Open("127.0.0.1:0");
  ASSERT_TRUE(first.ok()) << first.status();
  for (const char* host : {"127.0.0.1", "0.0.0.0"}) {
    const auto second = Open(fmt::format("{}:{}", host, first->port()));
    EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(second.status().message(),
              fmt::format(
                  "address {}:{}: Address already in use; give one of this machine, with a port that is free",
                  host, first->port()));
  }
}

TEST(ListenSockets, PortIsFreeAgainAfterTheEnd) {
  std::optional<ListenSockets> first = *Open("127.0.0.1:0");
  const int port = first->port();
  const base::UniqueFd connection = ConnectTo("127.0.0.1", port);
  ASSERT_TRUE(connection.ok());
  first.reset();
  const auto second = Open(fmt::format("127.0.0.1:{}", port));
  EXPECT_TRUE(second.ok()) << second.status();
}

// All addresses of a name are on the one port, also if any free one is asked for.
TEST(ListenSockets, NameListensAtAllItsAddresses) {
  const auto sockets = Open("localhost:0");
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  const auto found = Resolve(*ParseListenAddress("localhost:0"));
  ASSERT_TRUE(found.ok());
  int addresses = 0;
  for (const addrinfo* each = found->get(); each != nullptr; each = each->ai_next) {
    char host[NI_MAXHOST];
    ASSERT_EQ(getnameinfo(each->ai_addr, each->ai_addrlen, host, sizeof host, nullptr, 0, NI_NUMERICHOST), 0);
    // An address that the machine does not have is left out.
    const base::UniqueFd probe(::socket(each->ai_family, SOCK_STREAM, 0));
    if (::bind(probe.get(), each->ai_addr, each->ai_addrlen) != 0 && errno != EADDRINUSE) continue;
    EXPECT_TRUE(Connects(host, sockets->port())) << host;
    ++addresses;
  }
  EXPECT_GT(addresses, 0);
}

TEST(ListenSockets, WildcardTakesBothFamilies) {
  const base::UniqueFd six(::socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool has_six =
      six.ok() && ::bind(six.get(), reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) == 0;
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    const auto sockets = Open(address);
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    EXPECT_TRUE(Connects("127.0.0.1", sockets->port())) << address;
    EXPECT_EQ(Connects("::1", sockets->port()), has_six) << address;
  }
}

TEST(ListenSockets, UnknownHostIsReported) {
  const auto sockets = Open("no-such-host.invalid:0");
  EXPECT_EQ(sockets.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(sockets.status().message()), HasSubstr("address no-such-host.invalid:0: "));
  // An address of another machine (reserved for documentation).
  const auto foreign = Open("192.0.2.1:0");
  EXPECT_EQ(
      foreign.status().message(),
      "address 192.0.2.1:0: Cannot assign requested address; give one of this machine, with a port that is "
      "free");
}

TEST(ListenSockets, UnixSocketIsPrivateAndRemovedAtTheEnd) {
  const TempDir dir;
  const std::string path = dir.File("s");
  const mode_t before = umask(0);
  auto sockets = Open("unix:" + path);
  umask(before);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  struct stat info {};
  ASSERT_EQ(::lstat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(sockets->port(), 0);
  EXPECT_TRUE(ConnectTo(path).ok());
  { const ListenSockets moved = *std::move(sockets); }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ListenSockets, SocketOfASuccessorStays) {
  const TempDir dir;
  const std::string path = dir.File("s");
  std::optional<ListenSockets> first = *Open("unix:" + path);
  std::filesystem::rename(path, dir.File("moved"));
  const auto second = Open("unix:" + path);
  ASSERT_TRUE(second.ok()) << second.status();
  first.reset();
  EXPECT_TRUE(ConnectTo(path).ok());
}

}  // namespace
}  // namespace autocfg::server
