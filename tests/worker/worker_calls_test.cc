// The worker's calls during a short coordinator outage: they wait, and continue as soon as it is back instead
// of at gRPC's next retry.
#include "worker/jobs/worker_calls.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "proto/rpc/channel.h"
#include "tests/worker/fake_coordinator.h"

namespace autocfg::worker {
namespace {

constexpr double kLeaseSeconds = 60;

class WorkerCallsTest : public testing::Test {
 protected:
  WorkerCallsTest() : session_(calls_.Register("boot", {}, group_).value()) {
    lease_.set_lease_id("lease-1");
  }

  // Stops the coordinator, which breaks the connection, and restarts it while `call` is in flight.
  template <typename Call>
  auto OverARestart(Call call, std::chrono::milliseconds away = std::chrono::milliseconds(300)) {
    coordinator_.reset();
    CallGroup own;
    EXPECT_TRUE(absl::IsUnavailable(calls_.Deregister(session_, own))) << "nobody is there";
    std::thread comes_back([this, away] {
      std::this_thread::sleep_for(away);
      coordinator_ = std::make_unique<FakeCoordinator>(address_, kLeaseSeconds);
    });
    auto answer = call();
    comes_back.join();
    return answer;
  }

  const std::string address_ = fmt::format("unix:{}/worker_calls_{}.sock", testing::TempDir(), getpid());
  std::unique_ptr<FakeCoordinator> coordinator_ = std::make_unique<FakeCoordinator>(address_, kLeaseSeconds);
  const WorkerCalls calls_{*OpenChannel({.target = address_}, false), "workers/a"};
  CallGroup group_;
  const Registration session_;
  v1::LeaseWorkResponse lease_;
};

TEST_F(WorkerCallsTest, RenewalSurvivesRestart) {
  const auto command =
      OverARestart([&] { return calls_.RenewLease(session_, lease_, 0, kLeaseSeconds, group_); });
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(*command, v1::LEASE_COMMAND_CONTINUE);
}

TEST_F(WorkerCallsTest, RenewalEndsWithItsLimit) {
  coordinator_.reset();
  const auto before = std::chrono::steady_clock::now();
  const auto command = calls_.RenewLease(session_, lease_, 1000, 0.2, group_);
  EXPECT_TRUE(absl::IsDeadlineExceeded(command.status()) || absl::IsUnavailable(command.status()))
      << command.status();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
}

TEST_F(WorkerCallsTest, ReportSurvivesRestart) {
  v1::ReportTrialRequest report;
  report.set_worker("workers/a");
  const absl::Status status = OverARestart([&] { return calls_.ReportTrial(report, group_); });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(WorkerCallsTest, LogSurvivesRestart) {
  const absl::Status status = OverARestart([&] { return calls_.AppendTrialLog(lease_, "words", group_); });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << "what this coordinator says of every log: " << status;
}

// The deadline of a single call is the barrier's time and 5 s.
TEST_F(WorkerCallsTest, GatheringSurvivesAnOutageLongerThanItsBarrier) {
  v1::LeaseWorkResponse other = lease_;
  other.set_lease_id("lease-2");
  for (v1::LeaseWorkResponse* lease : {&lease_, &other}) lease->mutable_share()->set_barrier_s(0.1);
  const auto values = OverARestart(
      [&] {
        auto others = std::async(std::launch::async, [&] {
          return calls_.Rendezvous(other, "round 0", 0, {"b", "c"}, group_);
        });
        auto own = calls_.Rendezvous(lease_, "round 0", 0, {"a"}, group_);
        return std::pair(std::move(own), others.get());
      },
      std::chrono::seconds(7));
  ASSERT_TRUE(values.first.ok()) << values.first.status();
  EXPECT_EQ(*values.first, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(values.first, values.second);
}

TEST_F(WorkerCallsTest, GatheringEndsWithItsGroup) {
  coordinator_.reset();
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    group_.Cancel();
  });
  EXPECT_FALSE(calls_.Rendezvous(lease_, "round 0", 0, {"a"}, group_).ok());
  canceller.join();
}

// A worker that pauses for a minute between polls gets work as soon as the coordinator is back.
TEST_F(WorkerCallsTest, PauseEndsWhenTheCoordinatorIsBack) {
  const auto before = std::chrono::steady_clock::now();
  const absl::Status status = OverARestart([&] {
    calls_.Pause(60, group_);
    return calls_.LeaseWork(session_, {}, 10, std::nullopt, group_).status();
  });
  EXPECT_TRUE(absl::IsNotFound(status)) << "the new coordinator does not know it: " << status;
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
}

TEST_F(WorkerCallsTest, PauseEndsWithItsGroup) {
  group_.Cancel();
  const auto before = std::chrono::steady_clock::now();
  calls_.Pause(60, group_);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60));
}

}  // namespace
}  // namespace autocfg::worker
