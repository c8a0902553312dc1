// A worker that registers and never asks for work beside a real one: the ranks of `search --coordinator` are
// those of workers that take jobs.
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cli/client/worker_client.h"
#include "gmock/gmock.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::cli {
namespace {

using testing::ElementsAre;

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
