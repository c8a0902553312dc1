// Greedy or silent workers beside real ones: other studies go on.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

class SilentGiant : public CoordinatorFixture {
 protected:
  void TearDown() override {
    leaves_ = true;
    if (lives_.joinable()) lives_.join();
    CoordinatorFixture::TearDown();
  }
  // Registers 1,024 slots, and then registers again and again: a sign of life, but no call for work.
  void StartGiant() {
    v1::RegisterWorkerRequest request;
    request.set_worker("workers/giant");
    request.set_boot_id("boot");
    request.mutable_inventory()->set_slots(1024);
    request.mutable_inventory()->set_device_kind("cpu");
    request.mutable_inventory()->set_hostname("giant");
    const auto call = [this, request] {
      v1::RegisterWorkerResponse response;
      return Call(workers_, &v1::WorkerService::Stub::RegisterWorker, request, &response);
    };
    ASSERT_TRUE(call().ok());
    lives_ = std::thread([this, call] {
      while (!leaves_) {
        EXPECT_TRUE(call().ok());
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
  }
  // Waits until the study says that it waits, in these words.
  void AwaitWaiting(const std::string& study, const std::string& words) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (Get(study).waiting().find(words) == std::string::npos && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_THAT(Get(study).waiting(), HasSubstr(words));
  }

 private:
  std::atomic<bool> leaves_ = false;
  std::thread lives_;
};

TEST_F(SilentGiant, DoesNotHoldUpStudiesThatRealWorkersCanRun) {
  Open();
  StartGiant();
  v1::SearchSpec large = SmallSpec();
  large.mutable_cluster()->mutable_groups(0)->set_gpus_per_node(64);
  large.mutable_workload()->set_global_batch(64);
  const v1::Study first = Create(large);
  const v1::Study second = Create(SmallSpec());
  ASSERT_TRUE(Start(first.name()).ok());
  AwaitWaiting(first.name(), "no cpu worker is running");
  FakeWorker worker(coordinator_->address());
  ASSERT_TRUE(Start(second.name()).ok());
  EXPECT_EQ(Finish(second.name()).state(), v1::STUDY_STATE_DONE);
  EXPECT_EQ(Get(first.name()).state(), v1::STUDY_STATE_RUNNING);
  AwaitWaiting(
      first.name(),
      "its next job needs 64 slots of cpu workers, but those that take jobs have 4; start more workers");
}

// A study whose job waits for a busy worker says whose jobs run there, in the stream too.
TEST_F(SilentGiant, StudyBesideABusyWorkerSaysWhatItWaitsFor) {
  Open();
  std::atomic<bool> release = false;
  std::atomic<bool> holds = false;
  const v1::Study first = Create(SmallSpec());
  const v1::Study second = Create(SmallSpec());
  FakeWorker worker(coordinator_->address(), [&](const v1::Job& job) {
    holds = true;
    while (!release) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FakeWorker::ByFormula(job);
  });
  ASSERT_TRUE(Start(first.name()).ok());
  while (!holds) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(Start(second.name()).ok());
  std::string waiting;
  const Stream stream = Watch(second.name(), 0, [&](const v1::StudyEvent& event) {
    waiting = event.study().waiting();
    return !waiting.empty();
  });
  EXPECT_EQ(waiting, "its next job needs 4 slots of cpu workers; 0 are free; it waits for the jobs of " +
                         first.name());
  EXPECT_EQ(Get(first.name()).waiting(), "");
  release = true;
  EXPECT_EQ(Finish(second.name()).state(), v1::STUDY_STATE_DONE);
  EXPECT_EQ(Get(second.name()).waiting(), "");
}

}  // namespace
}  // namespace autocfg::server
