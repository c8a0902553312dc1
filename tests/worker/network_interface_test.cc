#include "worker/machine/network_interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace autocfg::worker {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Every machine that runs the tests has a loopback interface.
TEST(NetworkInterface, IsFoundByItsAddress) {
  EXPECT_EQ(InterfaceOf("127.0.0.1"), "lo");
  EXPECT_EQ(InterfaceOf("192.0.2.1"), "") << "an address of documents";
  EXPECT_EQ(InterfaceOf(""), "");
}

TEST(NetworkInterface, HasAnAddressOfTheOldProtocolFirst) {
  const auto address = AddressOf("lo");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, "127.0.0.1");
}

TEST(NetworkInterface, AnUnknownOneIsAnErrorThatListsTheOthers) {
  const auto unknown = AddressOf("no\nsuch0");
  EXPECT_TRUE(absl::IsNotFound(unknown.status())) << unknown.status();
  const std::string message(unknown.status().message());
  EXPECT_THAT(message, testing::AllOf(HasSubstr("such0"), HasSubstr("lo")));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

TEST(NetworkInterface, RdmaPortsAreNamedAsUcxNamesThem) {
  const fs::path root = fs::path(testing::TempDir()) / ("rdma_" + std::to_string(::getpid()));
  EXPECT_THAT(RdmaPorts(root), ElementsAre());
  for (const char* port : {"mlx5_1/ports/1", "mlx5_0/ports/2", "mlx5_0/ports/1"})
    fs::create_directories(root / "sys/class/infiniband" / port);
  EXPECT_THAT(RdmaPorts(root), ElementsAre("mlx5_0:1", "mlx5_0:2", "mlx5_1:1"));
  fs::remove_all(root);
}

TEST(NetworkInterface, VariablesNameItForEachLibrary) {
  EXPECT_THAT(InterfaceVariables("eth1", {}),
              ElementsAre(Pair("UCX_NET_DEVICES", "eth1"), Pair("NCCL_SOCKET_IFNAME", "=eth1"),
                          Pair("GLOO_SOCKET_IFNAME", "eth1")));
  EXPECT_THAT(InterfaceVariables("eth1", {"mlx5_0:1", "mlx5_1:1"}).front(),
              Pair("UCX_NET_DEVICES", "mlx5_0:1,mlx5_1:1,eth1"));
}

TEST(NetworkInterface, VariablesOfTheUserCount) {
  ::setenv("AUTOCFG_TEST_INTERFACE_SET", "mine", 1);
  ::unsetenv("AUTOCFG_TEST_INTERFACE_UNSET");
  SetVariables({{"AUTOCFG_TEST_INTERFACE_SET", "ours"}, {"AUTOCFG_TEST_INTERFACE_UNSET", "ours"}});
  EXPECT_STREQ(::getenv("AUTOCFG_TEST_INTERFACE_SET"), "mine");
  EXPECT_STREQ(::getenv("AUTOCFG_TEST_INTERFACE_UNSET"), "ours");
  ::unsetenv("AUTOCFG_TEST_INTERFACE_SET");
  ::unsetenv("AUTOCFG_TEST_INTERFACE_UNSET");
}

}  // namespace
}  // namespace autocfg::worker
