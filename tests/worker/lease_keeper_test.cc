#include "worker/lease_keeper.h"

#include <gtest/gtest.h>

namespace autocfg {
namespace {

using Clock = LeaseKeeper::Clock;

// Long enough for any machine; left as soon as the condition holds.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(LeaseKeeper, RenewsAgainAndAgain) {
  std::atomic<bool> stop{false};
  std::atomic<int> renewals{0};
  LeaseKeeper keeper(
      Clock::now(), 0.3,
      [&]() -> absl::StatusOr<v1::LeaseCommand> {
        ++renewals;
        return v1::LEASE_COMMAND_CONTINUE;
      },
      &stop);
  EXPECT_TRUE(Eventually([&] { return renewals >= 3; }));
  EXPECT_FALSE(keeper.cancelled());
}

TEST(LeaseKeeper, CancelEndsTheJobButTheLeaseStays) {
  std::atomic<bool> stop{false};
  LeaseKeeper keeper(
      Clock::now(), 3, [&]() -> absl::StatusOr<v1::LeaseCommand> { return v1::LEASE_COMMAND_CANCEL; }, &stop);
  EXPECT_FALSE(keeper.cancelled());
  ASSERT_TRUE(Eventually([&] { return stop.load(); }));
  EXPECT_TRUE(keeper.cancelled());
  EXPECT_FALSE(keeper.lost()) << "that it was cancelled may still be reported";
}

TEST(LeaseKeeper, RefusedRenewalLosesTheLease) {
  std::atomic<bool> stop{false};
  LeaseKeeper keeper(
      Clock::now(), 0.3,
      []() -> absl::StatusOr<v1::LeaseCommand> { return absl::FailedPreconditionError("another's"); }, &stop);
  EXPECT_TRUE(Eventually([&] { return keeper.lost(); }));
  EXPECT_TRUE(Eventually([&] { return stop.load(); }));
  EXPECT_FALSE(keeper.cancelled());
}

TEST(LeaseKeeper, UnansweredRenewalsLoseItWhenItRunsOut) {
  std::atomic<bool> stop{false};
  std::atomic<int> tries{0};
  LeaseKeeper keeper(
      Clock::now(), 0.4,
      [&]() -> absl::StatusOr<v1::LeaseCommand> {
        ++tries;
        return absl::UnavailableError("nobody there");
      },
      &stop);
  EXPECT_TRUE(Eventually([&] { return stop.load(); }));
  EXPECT_TRUE(keeper.lost());
  EXPECT_GE(tries, 1);
}

TEST(LeaseKeeper, EndsPromptly) {
  std::atomic<bool> stop{false};
  const auto before = Clock::now();
  {
    LeaseKeeper keeper(
        Clock::now(), 3600, [] { return absl::StatusOr<v1::LeaseCommand>(v1::LEASE_COMMAND_CONTINUE); },
        &stop);
  }
  EXPECT_LT(Clock::now() - before, std::chrono::seconds(60)) << "it waited for its next renewal";
  EXPECT_FALSE(stop);
}

}  // namespace
}  // namespace autocfg
