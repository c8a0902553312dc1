// Tests the notes of a training run that has not ended its first step.
#include "cli/train/first_step_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace autocfg::cli {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kShort{20};

// Returns what is said in `waits` short intervals.
std::string Said(bool speaks, int waits, std::chrono::milliseconds every) {
  testing::internal::CaptureStderr();
  {
    FirstStepWait wait(speaks, "dp=2 on 2 ranks", every);
    std::this_thread::sleep_for(kShort * waits);
    wait.End();
    wait.End();
  }
  return testing::internal::GetCapturedStderr();
}

TEST(FirstStepWait, SaysWhatRunsAndThatNoStepHasEnded) {
  const std::string said = Said(true, 100, kShort);
  EXPECT_THAT(said, HasSubstr("note: dp=2 on 2 ranks: no step has ended after 20 ms\n"));
  EXPECT_THAT(said, HasSubstr("note: no step has ended after 40 ms\n"));
}

TEST(FirstStepWait, SaysNothingBeforeTheFirstInterval) {
  EXPECT_EQ(Said(true, 1, FirstStepWait::kEvery), "");
}

TEST(FirstStepWait, IsSilentWhereItIsNotAsked) { EXPECT_EQ(Said(false, 5, kShort), ""); }

}  // namespace
}  // namespace autocfg::cli
