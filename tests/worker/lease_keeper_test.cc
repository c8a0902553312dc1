#include "worker/jobs/lease_keeper.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>

namespace autocfg::worker {
namespace {

using Clock = LeaseKeeper::Clock;

// Polls up to a generous limit; returns as soon as the condition holds.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

using Answer = absl::StatusOr<v1::LeaseCommand>;

// A coordinator that answers immediately.
LeaseKeeper::Calls AtOnce(std::function<Answer()> answer) {
  return {.renew = [answer = std::move(answer)](double, double) { return answer(); }, .cancel = [] {}};
}

TEST(LeaseKeeper, RenewsRepeatedly) {
  std::atomic<bool> stop{false};
  std::atomic<int> renewals{0};
  LeaseKeeper keeper(Clock::now(), 0.3, AtOnce([&]() -> Answer {
                       ++renewals;
                       return v1::LEASE_COMMAND_CONTINUE;
                     }),
                     &stop);
  EXPECT_TRUE(Eventually([&] { return renewals >= 3; }));
  EXPECT_FALSE(keeper.cancelled());
}

TEST(LeaseKeeper, CancelEndsTheJobButKeepsTheLease) {
  std::atomic<bool> stop{false};
  LeaseKeeper keeper(Clock::now(), 3600, AtOnce([]() -> Answer { return v1::LEASE_COMMAND_CANCEL; }), &stop);
  ASSERT_TRUE(Eventually([&] { return stop.load(); }));
  EXPECT_TRUE(keeper.cancelled());
  EXPECT_FALSE(keeper.lost()) << "that it was cancelled may still be reported";
}

TEST(LeaseKeeper, RefusedRenewalLosesTheLease) {
  std::atomic<bool> stop{false};
  LeaseKeeper keeper(Clock::now(), 0.3,
                     AtOnce([]() -> Answer { return absl::FailedPreconditionError("another's"); }), &stop);
  EXPECT_TRUE(Eventually([&] { return keeper.lost(); }));
  EXPECT_TRUE(Eventually([&] { return stop.load(); }));
  EXPECT_FALSE(keeper.cancelled());
}

TEST(LeaseKeeper, JobIsGivenUpOncePatienceEnds) {
  std::atomic<bool> stop{false};
  std::atomic<int> tries{0};
  const auto begin = Clock::now();
  LeaseKeeper keeper(begin, 0.2, AtOnce([&]() -> Answer {
                       ++tries;
                       return absl::UnavailableError("nobody there");
                     }),
                     &stop, std::chrono::milliseconds(2000));
  EXPECT_TRUE(Eventually([&] { return stop.load(); }));
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(2200)) << "a lease duration and the patience";
  EXPECT_TRUE(keeper.lost());
  EXPECT_GE(tries, 2) << "one that is not answered is repeated soon";
}

// A coordinator that was stopped, or restarted, grants its leases anew.
TEST(LeaseKeeper, AnswerAfterSeveralLeaseDurationsKeepsTheJob) {
  std::atomic<bool> stop{false};
  std::atomic<bool> answers{false};
  std::atomic<int> answered{0};
  const auto begin = Clock::now();
  LeaseKeeper keeper(begin, 0.1, AtOnce([&]() -> Answer {
                       if (!answers) return absl::DeadlineExceededError("stopped");
                       ++answered;
                       return v1::LEASE_COMMAND_CONTINUE;
                     }),
                     &stop);
  std::this_thread::sleep_until(begin + std::chrono::milliseconds(300));
  EXPECT_FALSE(stop);
  EXPECT_FALSE(keeper.lost()) << "only the coordinator knows";
  answers = true;
  EXPECT_TRUE(Eventually([&] { return answered >= 2; }));
  EXPECT_FALSE(stop);
  EXPECT_FALSE(keeper.lost());
}

TEST(LeaseKeeper, EndsPromptly) {
  std::atomic<bool> stop{false};
  const auto before = Clock::now();
  {
    LeaseKeeper keeper(Clock::now(), 3600, AtOnce([]() -> Answer { return v1::LEASE_COMMAND_CONTINUE; }),
                       &stop);
  }
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(60)) << "it waited for its next renewal";
  EXPECT_FALSE(stop);
}

// A coordinator that parks renewals until the test supplies an answer.
class ParkingCoordinator {
 public:
  LeaseKeeper::Calls Calls() {
    return {.renew = [this](double wait_s, double limit_s) { return Renew(wait_s, limit_s); },
            .cancel = [this] { Say(absl::CancelledError("gone")); },
            .drain = [this] { ++drains; }};
  }
  void Say(Answer answer) {
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(answer);
  }

  std::atomic<int> renewals{0};
  std::atomic<int> drains{0};
  std::atomic<double> last_wait_s{-1};
  std::atomic<double> last_limit_s{-1};

 private:
  Answer Renew(double wait_s, double limit_s) {
    absl::MutexLock lock(&mutex_);
    last_wait_s = wait_s;
    last_limit_s = limit_s;
    ++renewals;
    const auto said = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return answer_.has_value(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&said), absl::Seconds(wait_s)))
      return v1::LEASE_COMMAND_CONTINUE;
    return *std::exchange(answer_, std::nullopt);
  }

  absl::Mutex mutex_;
  std::optional<Answer> answer_ ABSL_GUARDED_BY(mutex_);
};

TEST(LeaseKeeper, ParkedRenewalReceivesCancellationImmediately) {
  std::atomic<bool> stop{false};
  ParkingCoordinator coordinator;
  LeaseKeeper keeper(Clock::now(), 3600, coordinator.Calls(), &stop);
  ASSERT_TRUE(Eventually([&] { return coordinator.renewals == 1; }));
  EXPECT_EQ(coordinator.last_wait_s, 1200);
  EXPECT_LE(coordinator.last_limit_s, 3600 + 600) << "what is left of the lease, and the patience";
  EXPECT_GT(coordinator.last_limit_s, 1200);
  EXPECT_FALSE(stop);
  coordinator.Say(v1::LEASE_COMMAND_CANCEL);
  EXPECT_TRUE(Eventually([&] { return stop.load(); })) << "far before a third of the lease";
  EXPECT_TRUE(keeper.cancelled());
  EXPECT_FALSE(keeper.lost());
}

TEST(LeaseKeeper, NonParkingCoordinatorIsNotPolledMoreOften) {
  std::atomic<bool> stop{false};
  std::atomic<int> renewals{0};
  LeaseKeeper keeper(Clock::now(), 3600, AtOnce([&]() -> Answer {
                       ++renewals;
                       return v1::LEASE_COMMAND_CONTINUE;
                     }),
                     &stop);
  ASSERT_TRUE(Eventually([&] { return renewals == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a busy loop would ask thousands of times
  EXPECT_EQ(renewals, 1);
}

TEST(LeaseKeeper, UnansweredRenewalIsRepeatedWithoutParking) {
  std::atomic<bool> stop{false};
  ParkingCoordinator coordinator;
  LeaseKeeper keeper(Clock::now(), 10, coordinator.Calls(), &stop);
  ASSERT_TRUE(Eventually([&] { return coordinator.renewals == 1; }));
  coordinator.Say(absl::UnavailableError("restarting"));
  ASSERT_TRUE(Eventually([&] { return coordinator.renewals >= 2; }));
  EXPECT_FALSE(stop) << "the lease has not run out";
}

TEST(LeaseKeeper, DrainIsForwardedAndTheJobContinues) {
  std::atomic<bool> stop{false};
  ParkingCoordinator coordinator;
  LeaseKeeper keeper(Clock::now(), 3600, coordinator.Calls(), &stop);
  coordinator.Say(v1::LEASE_COMMAND_DRAIN);
  ASSERT_TRUE(Eventually([&] { return coordinator.drains == 1; }));
  EXPECT_FALSE(stop);
  EXPECT_FALSE(keeper.cancelled());
}

TEST(LeaseKeeper, LoseMarksTheLeaseAsLost) {
  std::atomic<bool> stop{false};
  ParkingCoordinator coordinator;
  LeaseKeeper keeper(Clock::now(), 3600, coordinator.Calls(), &stop);
  keeper.Lose();
  EXPECT_TRUE(keeper.lost());
  EXPECT_TRUE(stop);
}

}  // namespace
}  // namespace autocfg::worker
