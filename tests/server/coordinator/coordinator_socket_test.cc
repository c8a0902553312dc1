// The address of a coordinator: its socket is private to its owner, and bad addresses are rejected.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;
using CoordinatorTest = CoordinatorFixture;

absl::Status StartStatus(const std::string& address, double lease_duration_s = 10) {
  auto store = OpenMemoryStore();
  EXPECT_TRUE(store.ok());
  CoordinatorOptions options;
  options.address = address;
  options.lease_duration_s = lease_duration_s;
  return Coordinator::Start(*std::move(store), options).status();
}

TEST_F(CoordinatorTest, SocketIsPrivateToItsOwner) {
  Open();
  struct stat info {};
  ASSERT_EQ(::stat(dir_.File("s").c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // The address is in use.
  const absl::Status status = StartStatus("unix:" + dir_.File("s"));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("another coordinator"));
  EXPECT_EQ(Create(SmallSpec()).state(), v1::STUDY_STATE_CREATED);  // and the first coordinator still answers
}

TEST_F(CoordinatorTest, StaleSocketIsReplaced) {
  const std::string path = dir_.File("s");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ::close(fd);
  Open();
  EXPECT_EQ(Create(SmallSpec()).state(), v1::STUDY_STATE_CREATED);
}

TEST_F(CoordinatorTest, RejectsBadAddresses) {
  std::ofstream(dir_.File("file")) << "mine";
  EXPECT_EQ(StartStatus("unix:" + dir_.File("file")).code(), absl::StatusCode::kFailedPrecondition);
  std::string kept;
  std::ifstream(dir_.File("file")) >> kept;
  EXPECT_EQ(kept, "mine");
  EXPECT_EQ(StartStatus("unix:").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartStatus("unix:/tmp/" + std::string(200, 'x')).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartStatus("unix:" + dir_.File("no/such/s")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StartStatus("0.0.0.0:0").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartStatus("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartStatus("unix:" + dir_.File("s"), 0).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, LoopbackAddressReportsItsPort) {
  auto store = OpenMemoryStore();
  ASSERT_TRUE(store.ok());
  CoordinatorOptions options;
  options.address = "127.0.0.1:0";
  auto coordinator = Coordinator::Start(*std::move(store), options);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  EXPECT_THAT((*coordinator)->address(), testing::MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  (*coordinator)->Shutdown();
  (*coordinator)->Shutdown();
}

}  // namespace
}  // namespace autocfg::server
