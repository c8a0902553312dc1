#include "worker/engines/node_address.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace autocfg::worker {
namespace {

using testing::HasSubstr;

TEST(NodeAddress, IsTheOneThatReachesTheCoordinator) {
  EXPECT_EQ(*OwnAddress("unix:/run/autocfg.sock"), "127.0.0.1");
  EXPECT_EQ(*OwnAddress("localhost:7777"), "127.0.0.1");
  EXPECT_FALSE(OwnAddress("no address").ok());
  EXPECT_TRUE(IsLoopback("127.1.2.3"));
  EXPECT_TRUE(IsLoopback("::1"));
  EXPECT_FALSE(IsLoopback("10.0.0.1"));
  for (const char* good : {"10.0.0.1", "fe80::1", "node-1.example.org"}) EXPECT_TRUE(IsAddress(good)) << good;
  for (const char* bad : {"", "-x", "--load=/x", "a b", "a\nb", "$(x)", "a/b"})
    EXPECT_FALSE(IsAddress(bad)) << bad;
}

TEST(FreePort, IsHeldAndFree) {
  std::set<int> numbers;
  std::vector<FreePort> ports;
  for (int i = 0; i < 4; ++i) {
    auto port = FreePort::Take();
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_GT(port->number(), 0);
    EXPECT_TRUE(numbers.insert(port->number()).second) << "taken twice";
    ports.push_back(*std::move(port));
  }
}

TEST(NodePlace, FollowsFromTheCards) {
  const std::string first = NodeCard("10.0.0.1", 4000, "one", 0);
  const std::string second = NodeCard("10.0.0.2", 5000, "two", 2);
  const auto place = PlaceAmong({first, first, second}, 2);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->master_address, "10.0.0.1");
  EXPECT_EQ(place->master_port, 4000);
  EXPECT_EQ(place->node_rank, 1);
  EXPECT_EQ(place->nodes, 2);
  EXPECT_EQ(PlaceAmong({first, first, second}, 0)->node_rank, 0);
  EXPECT_FALSE(PlaceAmong({first, second}, 1).ok()) << "not one of them";
}

TEST(NodePlace, RefusesWhatCannotWork) {
  const std::string local = NodeCard("127.0.0.1", 4000, "one", 0);
  EXPECT_TRUE(PlaceAmong({local, NodeCard("127.0.0.1", 1, "one", 1)}, 1).ok())
      << "two workers of one machine";
  const auto apart = PlaceAmong({local, NodeCard("10.0.0.2", 1, "two", 1)}, 1);
  EXPECT_THAT(std::string(apart.status().message()),
              testing::AllOf(HasSubstr("two is another machine"), HasSubstr("--address")));
  for (const char* card : {"", "x", R"({"address": "--load", "port": 1, "host": "h", "first_rank": 0})", "{}",
                           "[1]", R"({"address": "", "port": 1, "host": "h", "first_rank": 0})",
                           R"({"address": "a", "port": 70000, "host": "h", "first_rank": 0})",
                           R"({"address": "a", "port": 1, "host": "h", "first_rank": 0, "x": 1})"})
    EXPECT_FALSE(PlaceAmong({card}, 0).ok()) << card;
}

}  // namespace
}  // namespace autocfg::worker
