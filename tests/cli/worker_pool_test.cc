// Tests the cluster of a coordinator's workers, with expected values computed by hand, and which workers are
// in it.
#include "cli/client/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cli/client/worker_client.h"
#include "tests/server/coordinator_fixture.h"
#include "worker/machine/inventory.h"

namespace autocfg::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kPoolGiB = std::int64_t{1} << 30;

v1::Worker CpuWorker(const std::string& name, const std::string& host, std::int64_t slots,
                     std::int64_t memory_bytes, std::int64_t cores = 2) {
  v1::Worker worker;
  worker.set_name("workers/" + name);
  v1::Inventory& inventory = *worker.mutable_inventory();
  inventory.set_hostname(host);
  inventory.set_device_kind("cpu");
  inventory.set_slots(slots);
  inventory.set_memory_bytes(memory_bytes);
  inventory.set_physical_cores(cores);
  return worker;
}

v1::Worker GpuWorker(const std::string& name, const std::vector<std::int64_t>& memories, std::int64_t slots) {
  v1::Worker worker = CpuWorker(name, name, slots, 64 * kPoolGiB);
  v1::Inventory& inventory = *worker.mutable_inventory();
  inventory.set_device_kind("cuda");
  inventory.set_driver("570.1");
  for (std::size_t i = 0; i < memories.size(); ++i) {
    v1::Gpu& gpu = *inventory.add_gpus();
    gpu.set_index(static_cast<int>(i));
    gpu.set_name("NVIDIA H200");
    gpu.set_uuid("GPU-" + name + std::to_string(i));
    gpu.set_memory_bytes(memories[i]);
  }
  return worker;
}

WorkerPool Pool(std::vector<v1::Worker> workers) {
  return {.coordinator = "head:5000", .workers = std::move(workers)};
}

TEST(WorkerPoolTest, LocalHasAllSlotsAndTheLeastMemory) {
  const WorkerPool pool =
      Pool({CpuWorker("a", "one", 2, 20 * kPoolGiB), CpuWorker("b", "two", 4, 20 * kPoolGiB)});
  const auto cluster = PoolCluster(pool, {.engine = EngineDevice::kCpu}, "local");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_TRUE(cluster->local);
  EXPECT_EQ(RankCount(*cluster), 6);
  EXPECT_EQ(cluster->groups.front().device.memory_bytes,
            4 * kPoolGiB);  // 80% of 20 GiB, on the host of 4 ranks
  EXPECT_DOUBLE_EQ(cluster->groups.front().ranks_per_core, 2);
}

TEST(WorkerPoolTest, WorkersOfOneHostShareItsMemory) {
  const WorkerPool pool =
      Pool({CpuWorker("a", "one", 2, 20 * kPoolGiB), CpuWorker("b", "one", 2, 20 * kPoolGiB)});
  const auto cluster = PoolCluster(pool, {.engine = EngineDevice::kCpu}, "local:2x2");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(RankCount(*cluster), 4);
  EXPECT_EQ(cluster->groups.front().device.memory_bytes, 4 * kPoolGiB);
  EXPECT_EQ(cluster->name, "local:2x2");
}

TEST(WorkerPoolTest, RejectsMoreRanksThanSlots) {
  const auto cluster = PoolCluster(Pool({CpuWorker("a", "one", 2, 20 * kPoolGiB)}),
                                   {.engine = EngineDevice::kCpu}, "local:1x3");
  ASSERT_EQ(cluster.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cluster.status().message()),
              HasSubstr("3 ranks, and the workers of head:5000 have 2 slots on cpu"));
}

TEST(WorkerPoolTest, OneWorkerEqualsTheLocalCluster) {
  v1::Worker worker;
  worker.set_name("workers/here");
  *worker.mutable_inventory() = worker::LocalInventory(4);
  const auto pooled = PoolCluster(Pool({worker}), {.engine = EngineDevice::kCpu}, "local:1x4");
  const auto here = worker::LocalCluster(4);
  ASSERT_TRUE(pooled.ok() && here.ok());
  EXPECT_EQ(*pooled, *here);
}

TEST(WorkerPoolTest, AutoChoosesGpusIfOffered) {
  const WorkerPool mixed =
      Pool({CpuWorker("a", "one", 2, 20 * kPoolGiB), GpuWorker("g", {140 * kPoolGiB, 80 * kPoolGiB}, 4)});
  const auto device = ChooseDevice(mixed, std::nullopt, "");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->engine, EngineDevice::kCuda);
  EXPECT_EQ(device->machine.gpus.size(), 2u);
  const auto cluster = PoolCluster(mixed, *device, "local");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(RankCount(*cluster), 4);
  EXPECT_EQ(cluster->groups.front().device.memory_bytes, 40 * kPoolGiB);  // two ranks on the smaller GPU
  EXPECT_DOUBLE_EQ(cluster->groups.front().ranks_per_core, 2);
  EXPECT_EQ(ChooseDevice(mixed, std::nullopt, "fp64")->engine, EngineDevice::kCpu);
  EXPECT_EQ(ChooseDevice(mixed, EngineDevice::kCpu, "")->engine, EngineDevice::kCpu);
  EXPECT_EQ(SlotsOf(mixed, EngineDevice::kPaced), 6);
}

TEST(WorkerPoolTest, RejectsADeviceThatNoWorkerOffers) {
  const auto cuda = ChooseDevice(Pool({CpuWorker("a", "one", 2, 20 * kPoolGiB)}), EngineDevice::kCuda, "");
  ASSERT_EQ(cuda.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(cuda.status().message()),
              HasSubstr("head:5000: no worker offers cuda (it has 2 slots on cpu)"));
  const auto none = ChooseDevice(Pool({}), std::nullopt, "");
  ASSERT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("no worker offers cpu (it has no workers that take jobs)"));
}

// A worker that registers and never asks for work beside a real one: the ranks of `search --coordinator` are
// those of workers that take jobs.
class SilentWorkerTest : public server::CoordinatorFixture {
 protected:
  void RegisterGiant() {
    v1::RegisterWorkerRequest request;
    request.set_worker("workers/giant");
    request.set_boot_id("boot");
    request.mutable_inventory()->set_slots(1024);
    request.mutable_inventory()->set_device_kind("cpu");
    v1::RegisterWorkerResponse response;
    ASSERT_TRUE(Call(workers_, &v1::WorkerService::Stub::RegisterWorker, request, &response).ok());
  }
  std::map<std::string, v1::Worker> Listed() {
    v1::ListWorkersResponse response;
    EXPECT_TRUE(
        Call(workers_, &v1::WorkerService::Stub::ListWorkers, v1::ListWorkersRequest(), &response).ok());
    std::map<std::string, v1::Worker> listed;
    for (const v1::Worker& worker : response.workers()) listed[worker.name()] = worker;
    return listed;
  }
  std::vector<std::string> PoolNames() {
    ServiceOptions options;
    options.coordinator = coordinator_->address();
    const auto pool = ListPool(options);
    EXPECT_TRUE(pool.ok()) << pool.status();
    std::vector<std::string> names;
    for (const v1::Worker& worker : pool->workers) names.push_back(worker.name());
    return names;
  }
};

TEST_F(SilentWorkerTest, PoolHasTheWorkersThatTakeJobs) {
  Open();
  RegisterGiant();
  EXPECT_THAT(PoolNames(), ElementsAre("workers/giant")) << "it is new";
  const server::FakeWorker real(coordinator_->address());
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Listed()["workers/giant"].takes_jobs() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    RegisterGiant();  // a sign of life, but no call for work
  }
  std::map<std::string, v1::Worker> listed = Listed();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed["workers/giant"].state(), v1::WORKER_STATE_ACTIVE);
  EXPECT_FALSE(listed["workers/giant"].takes_jobs());
  const std::vector<std::string> names = PoolNames();
  ASSERT_EQ(names.size(), 1u);
  EXPECT_NE(names.front(), "workers/giant");
  EXPECT_TRUE(listed[names.front()].takes_jobs()) << "it waits for work for longer than the giant's grace";
}

}  // namespace
}  // namespace autocfg::cli
