#include "server/store/op_times_key.h"

#include <vector>

#include "gtest/gtest.h"

namespace autocfg::server {
namespace {

WorkerRecord Worker(const std::string& name, int gpus, int slots, const std::string& device = "GPU X") {
  WorkerRecord worker;
  worker.session = {name, 1};
  worker.active = true;
  worker.inventory.set_device_kind("cuda");
  worker.inventory.set_device_fingerprint(device);
  worker.inventory.set_build_id("0.1.0+abc");
  worker.inventory.set_slots(slots);
  for (int i = 0; i < gpus; ++i) worker.inventory.add_gpus()->set_index(i);
  return worker;
}

v1::Job Job(int ranks, bool fewer = false) {
  v1::Job job;
  job.set_ranks(ranks);
  job.set_device("cuda");
  job.set_fewer_ranks(fewer);
  return job;
}

constexpr double kYear = 365.0 * 24 * 3600;

// Tests the key for lookups; conformance/store_calibrations_suite.h tests what is stored.
TEST(OpTimesKey, DescribesTheWorkersThatWouldRunTheJob) {
  const std::vector<WorkerRecord> workers = {Worker("workers/a", 4, 4), Worker("workers/b", 4, 4)};
  EXPECT_EQ(OpTimesKeyFor(Job(4), workers),
            (OpTimesKey{.device = "GPU X", .build_id = "0.1.0+abc", .ranks = 4, .kept_s = kYear}));
  EXPECT_EQ(
      OpTimesKeyFor(Job(8), workers),
      (OpTimesKey{.device = "GPU X", .build_id = "0.1.0+abc", .ranks = 8, .workers = 2, .kept_s = kYear}));
  EXPECT_FALSE(OpTimesKeyFor(Job(9), workers)) << "nobody can";
  EXPECT_EQ(OpTimesKeyFor(Job(9, /*fewer=*/true), workers)->ranks, 4);
  v1::Job cpu = Job(1);
  cpu.set_device("cpu");
  EXPECT_FALSE(OpTimesKeyFor(cpu, workers));
  EXPECT_FALSE(OpTimesKeyFor(Job(1), {}));
}

TEST(OpTimesKey, OfACpuNamesTheHostAndItsRanks) {
  std::vector<WorkerRecord> workers = {Worker("workers/a", 0, 4, "CPU X")};
  WorkerRecord& worker = workers[0];
  worker.inventory.set_device_kind("cpu");
  worker.inventory.set_physical_cores(2);
  v1::Job job = Job(3);
  job.set_device("cpu");
  EXPECT_FALSE(OpTimesKeyFor(job, workers)) << "its host has no name";
  worker.inventory.set_hostname("here");
  EXPECT_EQ(OpTimesKeyFor(job, workers), (OpTimesKey{.device = "CPU X, 2 cores, host here",
                                                     .build_id = "0.1.0+abc",
                                                     .ranks = 3,
                                                     .ranks_per_device = 3,
                                                     .kept_s = 24.0 * 3600}));
  EXPECT_FALSE(OpTimesKeyFor(Job(1), workers)) << "a job for GPUs";
}

TEST(OpTimesKey, DiffersIfRanksShareAGpu) {
  std::vector<WorkerRecord> workers = {Worker("workers/a", 2, 4)};
  EXPECT_EQ(OpTimesKeyFor(Job(2), workers)->ranks_per_device, 1);
  EXPECT_EQ(OpTimesKeyFor(Job(3), workers)->ranks_per_device, 2);
  EXPECT_EQ(OpTimesKeyFor(Job(4, /*fewer=*/true), workers)->ranks_per_device, 1);
  workers[0].inventory.mutable_gpus(1)->set_left_out("in use");
  EXPECT_EQ(OpTimesKeyFor(Job(3), workers)->ranks_per_device, 3);
}

TEST(OpTimesKey, RequiresEqualCandidateWorkers) {
  std::vector<WorkerRecord> workers = {Worker("workers/a", 4, 4), Worker("workers/b", 1, 1, "GPU Y")};
  EXPECT_FALSE(OpTimesKeyFor(Job(4), workers));
  workers[1].draining = true;
  EXPECT_TRUE(OpTimesKeyFor(Job(4), workers));
  workers[1].draining = false;
  workers[1].active = false;
  EXPECT_TRUE(OpTimesKeyFor(Job(4), workers));
  workers[1].active = true;
  workers[1].inventory.set_device_kind("cpu");
  EXPECT_TRUE(OpTimesKeyFor(Job(4), workers)) << "no GPU worker";
  workers[0].inventory.set_build_id("0.1.0+abc-dirty");
  EXPECT_FALSE(OpTimesKeyFor(Job(4), workers));
}

}  // namespace
}  // namespace autocfg::server
