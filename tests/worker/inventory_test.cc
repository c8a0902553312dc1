#include "worker/inventory.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <set>

#include "worker/build_id.h"

namespace autocfg {
namespace {

TEST(Inventory, CoresAreAllowedDistinctAndAscending) {
  const auto cores = PhysicalCores();
  ASSERT_FALSE(cores.empty());
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  for (std::size_t i = 0; i < cores.size(); ++i) {
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cores[i]), &allowed)) << cores[i];
    if (i > 0) {
      EXPECT_LT(cores[i - 1], cores[i]);
    }
  }
}

TEST(Inventory, RespectsAffinity) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int last = PhysicalCores().back();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(last), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(PhysicalCores(), std::vector<int>{last});
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Inventory, SaysWhatTheMachineHas) {
  const auto inventory = LocalInventory();
  EXPECT_EQ(inventory.slots(), inventory.physical_cores());
  EXPECT_EQ(inventory.device_kind(), "cpu");
  EXPECT_FALSE(inventory.device_fingerprint().empty());
  EXPECT_GT(inventory.memory_bytes(), 0);
  EXPECT_EQ(inventory.build_id(), BuildId());
  EXPECT_EQ(LocalInventory(5).slots(), 5);
}

TEST(Inventory, BuildIdHoldsTheVersion) {
  EXPECT_TRUE(BuildId().starts_with(Version() + "+"));
  EXPECT_GT(BuildId().size(), Version().size() + 1);
}

TEST(LocalCluster, OneRankPerCoreByDefault) {
  const auto cluster = LocalCluster();
  ASSERT_TRUE(cluster.ok());
  EXPECT_TRUE(Validate(*cluster).ok()) << Validate(*cluster);
  EXPECT_TRUE(cluster->local);
  EXPECT_EQ(RankCount(*cluster), static_cast<std::int64_t>(PhysicalCores().size()));
  EXPECT_EQ(cluster->groups[0].ranks_per_core, 1);
}

TEST(LocalCluster, RanksShareFourFifthsOfTheMemoryLimit) {
  const auto one = LocalCluster(1);
  const auto four = LocalCluster(4);
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_NEAR(static_cast<double>(MemoryCapacity(*one)), 0.8 * static_cast<double>(MemoryLimitBytes()), 16);
  EXPECT_NEAR(static_cast<double>(MemoryCapacity(*four)), 0.2 * static_cast<double>(MemoryLimitBytes()), 16);
  const auto crowded = LocalCluster(static_cast<std::int64_t>(4 * PhysicalCores().size()));
  ASSERT_TRUE(crowded.ok());
  EXPECT_EQ(crowded->groups[0].ranks_per_core, 4);
}

TEST(LocalCluster, RefusesAbsurdCounts) {
  EXPECT_TRUE(absl::IsInvalidArgument(LocalCluster(-1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(LocalCluster(1 << 20).status()));
}

}  // namespace
}  // namespace autocfg
