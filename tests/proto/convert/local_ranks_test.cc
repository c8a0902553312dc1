// The cluster `local` of several workers, computed by hand.
#include "proto/convert/local_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace autocfg {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

v1::Worker WorkerOn(const std::string& host, const std::string& kind, std::int64_t slots) {
  v1::Worker worker;
  worker.set_name("workers/" + host);
  v1::Inventory& inventory = *worker.mutable_inventory();
  inventory.set_hostname(host);
  inventory.set_device_kind(kind);
  inventory.set_slots(slots);
  inventory.set_physical_cores(2);
  inventory.set_memory_bytes(20 * kGiB);
  return worker;
}

void AddGpu(v1::Worker& worker, std::int64_t memory_bytes, const std::string& left_out = "") {
  v1::Gpu& gpu = *worker.mutable_inventory()->add_gpus();
  gpu.set_name("NVIDIA H200");
  gpu.set_memory_bytes(memory_bytes);
  gpu.set_left_out(left_out);
}

TEST(LocalRanks, TheScarcestRankStandsForAll) {
  const auto group = LocalRanks({WorkerOn("a", "cpu", 2), WorkerOn("b", "cpu", 4)}, EngineDevice::kCpu);
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(group->nodes, 1);
  EXPECT_EQ(group->gpus_per_node, 6);
  EXPECT_EQ(group->device.memory_bytes, 4 * kGiB);  // 80% of 20 GiB, on the host of 4 ranks
  EXPECT_EQ(group->ranks_per_core, 2);
  EXPECT_TRUE(Validate(ClusterSpec{.name = "local", .local = true, .groups = {*group}}).ok());
}

TEST(LocalRanks, RanksTakeTurnsOnTheGpusThatAreUsed) {
  v1::Worker worker = WorkerOn("g", "cuda", 4);
  AddGpu(worker, 140 * kGiB);
  AddGpu(worker, 80 * kGiB);
  AddGpu(worker, 8 * kGiB, "too old");
  const auto group = LocalRanks({WorkerOn("a", "cpu", 2), worker}, EngineDevice::kCuda);
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(group->gpus_per_node, 4);
  EXPECT_EQ(group->device.memory_bytes, 40 * kGiB);
  EXPECT_EQ(group->device.overhead_bytes, kGpuOverheadBytes);
  EXPECT_EQ(group->ranks_per_core, 2);
  EXPECT_EQ(DeviceOf({WorkerOn("a", "cpu", 2), worker}, ""), EngineDevice::kCuda);
  EXPECT_EQ(DeviceOf({WorkerOn("a", "cpu", 2), worker}, "fp64"), EngineDevice::kCpu);
  EXPECT_EQ(DeviceOf({WorkerOn("a", "cpu", 2)}, ""), EngineDevice::kCpu);
}

TEST(LocalRanks, WithoutSlotsThereIsNone) {
  const auto none = LocalRanks({WorkerOn("a", "cpu", 2)}, EngineDevice::kCuda).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none));
  EXPECT_THAT(std::string(none.message()),
              testing::HasSubstr("no worker offers cuda (it has 2 slots on other devices)"));
  v1::Worker worker = WorkerOn("g", "cuda", 100);
  AddGpu(worker, 80 * kGiB);
  const auto crowded = LocalRanks({worker}, EngineDevice::kCuda).status();
  EXPECT_TRUE(absl::IsInvalidArgument(crowded));
  EXPECT_THAT(std::string(crowded.message()),
              testing::HasSubstr("workers/g: 100 ranks on 1 GPU: each needs"));
}

TEST(LocalRanks, OfAnEngineAreThoseOfItsWorkers) {
  v1::Worker offering = WorkerOn("b", "cpu", 4);
  offering.mutable_inventory()->add_engines()->set_name("megatron");
  const std::vector<v1::Worker> workers = {WorkerOn("a", "cpu", 2), offering};
  EXPECT_NE(OfferedEngine(offering, "megatron"), nullptr);
  EXPECT_EQ(OfferedEngine(offering, "nemo"), nullptr);
  EXPECT_EQ(SlotsOf(WorkersForEngine(workers, "megatron"), EngineDevice::kCpu), 4);
  EXPECT_EQ(SlotsOf(WorkersForEngine(workers, "nemo"), EngineDevice::kCpu), 6) << "none yet: it waits";
  EXPECT_EQ(SlotsOf(WorkersForEngine(workers, ""), EngineDevice::kCpu), 6);
}

TEST(NarrowToEngine, AddsWhatTheSpecificationDoesNotName) {
  v1::SearchSpec spec;
  const auto named = [&spec](const std::string& name, const std::vector<std::string>& values) {
    v1::SpaceAxis& axis = *spec.add_space();
    axis.set_name(name);
    for (const std::string& value : values) axis.add_values(value);
  };
  named("micro_batch", {"2"});  // mbs by its other name
  named("sp", {});              // left open
  const auto added = NarrowToEngine({"pp=1", "mbs=1,4", "sp=0", "tp<=4", "zero=0,1"}, spec);
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(*added, (AxisValues{{"pp", {"1"}}, {"tp", {"<=4"}}, {"zero", {"0", "1"}}}));
  ASSERT_EQ(spec.space_size(), 5);
  EXPECT_EQ(spec.space(0).values(0), "2");
  EXPECT_EQ(spec.space(4).name(), "zero");
  EXPECT_EQ(spec.space(4).values_size(), 2);
  const auto again = NarrowToEngine({"pp=1,2"}, spec);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->empty()) << "a client has narrowed it";
  EXPECT_TRUE(absl::IsInvalidArgument(NarrowToEngine({"pp"}, spec).status()));
}

}  // namespace
}  // namespace autocfg
