#include "server/store/attempt_verdict.h"

#include <vector>

#include "gtest/gtest.h"

namespace autocfg::server {
namespace {

// The store's suite tests the verdict for reports. These tests cover ends without a report, and more than two
// shares.
TEST(AttemptVerdict, FirstShareWithDecidingEndIsDecisive) {
  const std::vector<ShareEnd> ends = {ShareEnd::kMeasured, ShareEnd::kFailedByPeer, ShareEnd::kLost,
                                      ShareEnd::kCancelled, ShareEnd::kLost};
  const AttemptVerdict verdict = VerdictOf(ends);
  EXPECT_EQ(verdict.decisive, 2u);
  EXPECT_EQ(verdict.end, ShareEnd::kLost);
  EXPECT_TRUE(verdict.again);
  EXPECT_TRUE(verdict.costs);
}

TEST(AttemptVerdict, WithdrawnShareOutranksPeerFailures) {
  const std::vector<ShareEnd> peer = {ShareEnd::kFailedByPeer, ShareEnd::kWithdrawn};
  EXPECT_EQ(VerdictOf(peer).end, ShareEnd::kWithdrawn);
  EXPECT_TRUE(VerdictOf(peer).again);
  EXPECT_FALSE(VerdictOf(peer).costs);
  const std::vector<ShareEnd> own = {ShareEnd::kWithdrawn, ShareEnd::kFailed};
  EXPECT_EQ(VerdictOf(own).end, ShareEnd::kFailed);
  EXPECT_FALSE(VerdictOf(own).again);
}

// A job whose ranks only ever fail because of their peers must not be retried forever.
TEST(AttemptVerdict, ReturnedShareOutranksPeerFailureUnlessTold) {
  const std::vector<ShareEnd> unasked = {ShareEnd::kFailedByPeer, ShareEnd::kCancelled};
  EXPECT_EQ(VerdictOf(unasked).decisive, 1u);
  EXPECT_TRUE(VerdictOf(unasked).again);
  EXPECT_TRUE(VerdictOf(unasked).costs) << "or it could be given back for ever";
  const std::vector<ShareEnd> told = {ShareEnd::kStopped, ShareEnd::kFailedByPeer};
  EXPECT_EQ(VerdictOf(told).end, ShareEnd::kFailedByPeer);
  EXPECT_TRUE(VerdictOf(told).again);
  EXPECT_TRUE(VerdictOf(told).costs);
  EXPECT_EQ(EndOf(v1::OUTCOME_CANCELLED, v1::FAILURE_KIND_UNSPECIFIED, false), ShareEnd::kCancelled);
  EXPECT_EQ(EndOf(v1::OUTCOME_CANCELLED, v1::FAILURE_KIND_UNSPECIFIED, true), ShareEnd::kStopped);
}

TEST(AttemptVerdict, ValidAnswerIsNotRetried) {
  for (const ShareEnd end :
       {ShareEnd::kMeasured, ShareEnd::kOutOfMemory, ShareEnd::kFailed, ShareEnd::kTimedOut}) {
    const std::vector<ShareEnd> ends = {end, ShareEnd::kMeasured};
    EXPECT_EQ(VerdictOf(ends).end, end);
    EXPECT_FALSE(VerdictOf(ends).again);
    EXPECT_FALSE(VerdictOf(ends).costs);
  }
}

TEST(AttemptVerdict, FailureWithoutKindIsOwnAndUnknownOutcomeIsNoEnd) {
  EXPECT_EQ(EndOf(v1::OUTCOME_FAILED, v1::FAILURE_KIND_UNSPECIFIED, false), ShareEnd::kFailed);
  EXPECT_EQ(EndOf(v1::OUTCOME_FAILED, static_cast<v1::FailureKind>(77), false), ShareEnd::kFailed);
  EXPECT_EQ(EndOf(v1::OUTCOME_TIMED_OUT, v1::FAILURE_KIND_PEER, true), ShareEnd::kTimedOut);
  EXPECT_EQ(EndOf(v1::OUTCOME_UNSPECIFIED, v1::FAILURE_KIND_OWN, true), ShareEnd::kRuns);
  EXPECT_EQ(EndOf(static_cast<v1::Outcome>(77), v1::FAILURE_KIND_OWN, false), ShareEnd::kRuns);
}

TEST(AttemptVerdict, StoredNumbersAreStable) {
  const std::vector<std::pair<ShareEnd, v1::TrialState>> ends = {
      {ShareEnd::kRuns, v1::TRIAL_STATE_RUNNING},
      {ShareEnd::kOutOfMemory, v1::TRIAL_STATE_INFEASIBLE},
      {ShareEnd::kFailed, v1::TRIAL_STATE_FAILED},
      {ShareEnd::kTimedOut, v1::TRIAL_STATE_TIMED_OUT},
      {ShareEnd::kFailedByProcess, v1::TRIAL_STATE_FAILED},
      {ShareEnd::kRefused, v1::TRIAL_STATE_LOST},
      {ShareEnd::kLost, v1::TRIAL_STATE_LOST},
      {ShareEnd::kWithdrawn, v1::TRIAL_STATE_LOST},
      {ShareEnd::kCancelled, v1::TRIAL_STATE_CANCELLED},
      {ShareEnd::kFailedByPeer, v1::TRIAL_STATE_FAILED},
      {ShareEnd::kStopped, v1::TRIAL_STATE_CANCELLED},
      {ShareEnd::kMeasured, v1::TRIAL_STATE_MEASURED}};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(ends[i].first), i);
    EXPECT_EQ(StateOf(ends[i].first), ends[i].second) << i;
    EXPECT_EQ(Breaks(ends[i].first), i != 0 && i != 11) << i;
    const bool given_back = ends[i].first == ShareEnd::kCancelled;
    EXPECT_EQ(LastStateOf(ends[i].first), given_back ? v1::TRIAL_STATE_LOST : ends[i].second) << i;
  }
}

}  // namespace
}  // namespace autocfg::server
