#include "worker/machine/inventory.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <set>

#include "base/os/process.h"
#include "tests/support/fake_nvml/fake_gpus.h"
#include "worker/jobs/slots.h"

namespace autocfg::worker {
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

TEST(Inventory, DescribesTheMachine) {
  const auto inventory = LocalInventory();
  EXPECT_EQ(inventory.slots(), inventory.physical_cores());
  EXPECT_EQ(inventory.device_kind(), "cpu");
  EXPECT_FALSE(inventory.device_fingerprint().empty());
  EXPECT_GT(inventory.memory_bytes(), 0);
  EXPECT_EQ(inventory.build_id(), base::BuildId());
  EXPECT_EQ(LocalInventory(5).slots(), 5);
}

TEST(Inventory, BuildIdHoldsTheVersion) {
  EXPECT_TRUE(base::BuildId().starts_with(base::Version() + "+"));
  EXPECT_GT(base::BuildId().size(), base::Version().size() + 1);
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

TEST(Inventory, ListsGpus) {
  const FakeGpus fake(EqualGpus(8) + ";" + EqualGpus(1, ",mig=1"));
  const auto inventory = LocalInventory(ListGpus());
  EXPECT_EQ(inventory.device_kind(), "cuda");
  EXPECT_EQ(inventory.device_fingerprint(), "NVIDIA H200, driver 570.86.15");
  EXPECT_EQ(inventory.driver(), "570.86.15");
  EXPECT_EQ(inventory.slots(), 8);
  EXPECT_EQ(inventory.physical_cores(), static_cast<std::int64_t>(PhysicalCores().size()));
  ASSERT_EQ(inventory.gpus_size(), 9);
  const v1::Gpu& second = inventory.gpus(1);
  EXPECT_EQ(second.index(), 1);
  EXPECT_EQ(second.name(), "NVIDIA H200");
  EXPECT_EQ(second.uuid(), "GPU-0001-b");
  EXPECT_EQ(second.memory_bytes(), kFakeGpuBytes);
  EXPECT_EQ(second.nvlinks(), 18);
  EXPECT_EQ(second.farthest(), "sockets");
  EXPECT_EQ(second.left_out(), "");
  EXPECT_NE(inventory.gpus(8).left_out(), "");
  EXPECT_EQ(UsableGpus(inventory).size(), 8u) << "no rank runs on what is left out";
  EXPECT_EQ(LocalInventory(ListGpus(), 16).slots(), 16);
}

TEST(Inventory, UsesTheCpuWithoutGpus) {
  const NoGpus none;
  const auto inventory = LocalInventory(ListGpus());
  EXPECT_EQ(inventory.device_kind(), "cpu");
  EXPECT_EQ(inventory.gpus_size(), 0);
  EXPECT_EQ(inventory.slots(), inventory.physical_cores());
}

TEST(LocalCluster, OneRankPerGpu) {
  const FakeGpus fake(EqualGpus(8));
  const auto cluster = LocalCluster(0, ListGpus());
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_TRUE(Validate(*cluster).ok()) << Validate(*cluster);
  EXPECT_TRUE(cluster->local);
  EXPECT_EQ(cluster->name, "local");
  EXPECT_EQ(RankCount(*cluster), 8);
  EXPECT_EQ(cluster->groups[0].device.kind, DeviceKind::kCuda);
  EXPECT_EQ(cluster->groups[0].device.name, "NVIDIA H200");
  EXPECT_EQ(cluster->groups[0].device.memory_bytes, kFakeGpuBytes);
  EXPECT_EQ(cluster->groups[0].device.overhead_bytes, kGpuOverheadBytes);
  EXPECT_EQ(cluster->groups[0].ranks_per_core, 1);
}

TEST(LocalCluster, RanksOfOneGpuShareItsMemory) {
  const FakeGpus fake(EqualGpus(1));
  const auto four = LocalCluster(4, ListGpus());
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(four->name, "local:1x4");
  EXPECT_EQ(RankCount(*four), 4);
  EXPECT_EQ(MemoryCapacity(*four), kFakeGpuBytes / 4);
  EXPECT_EQ(four->groups[0].device.overhead_bytes, kGpuOverheadBytes)
      << "each process has a context of its own";
  EXPECT_EQ(four->groups[0].ranks_per_core, 4);
  const auto many = LocalCluster(100, ListGpus()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(many)) << many;
  EXPECT_NE(many.message().find("give 56 at most"), std::string::npos) << many;  // 141 GiB, 2.5 GiB each
  EXPECT_TRUE(Validate(*LocalCluster(56, ListGpus())).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(LocalCluster(-1, ListGpus()).status()));
}

TEST(LocalCluster, SmallestGpuLimitsAllRanks) {
  const FakeGpus fake(EqualGpus(1) + ";name=NVIDIA L4,uuid=GPU-l4,total=24000000000");
  const auto cluster = LocalCluster(3, ListGpus());
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(MemoryCapacity(*cluster), 12'000'000'000) << "two of three ranks may share it";
}

TEST(RanksPerGpu, DistributesRoundRobin) {
  EXPECT_EQ(RanksPerGpu(1, 4), 1);
  EXPECT_EQ(RanksPerGpu(4, 4), 1);
  EXPECT_EQ(RanksPerGpu(5, 4), 2);
  EXPECT_EQ(RanksPerGpu(9, 2), 5);
}

TEST(LocalCluster, RefusesAbsurdCounts) {
  EXPECT_TRUE(absl::IsInvalidArgument(LocalCluster(-1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(LocalCluster(1 << 20).status()));
}

}  // namespace
}  // namespace autocfg::worker
