// The orders that the generators make: published ones spelled out, and what is in flight.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "search/schedule/program.h"

namespace autocfg {
namespace {

std::string Text(const ComputeOrder& order) {
  std::string text;
  for (const Action& action : order) text += fmt::format("{}{}", text.empty() ? "" : " ", ToString(action));
  return text;
}

// Narayanan et al. 2021, figure 4 (top): four stages, eight microbatches.
TEST(OneFOneB, FourStagesEightMicrobatches) {
  EXPECT_EQ(Text(OneFOneBOrder(0, 4, 8)), "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7");
  EXPECT_EQ(Text(OneFOneBOrder(1, 4, 8)), "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1F6 1B4 1F7 1B5 1B6 1B7");
  EXPECT_EQ(Text(OneFOneBOrder(2, 4, 8)), "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2F6 2B5 2F7 2B6 2B7");
  EXPECT_EQ(Text(OneFOneBOrder(3, 4, 8)), "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7");
}

TEST(GPipe, AllForwardsThenAllBackwards) {
  EXPECT_EQ(Text(GPipeOrder(2, 4, 3)), "2F0 2F1 2F2 2B0 2B1 2B2");
  EXPECT_EQ(Text(GPipeOrder(0, 1, 1)), "0F0 0B0");
}

TEST(Generators, InFlight) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int stage = 0; stage < stages; ++stage) {
      for (int m = 1; m <= 16; ++m) {
        EXPECT_EQ(MaxInFlight(GPipeOrder(stage, stages, m)), m);
        EXPECT_EQ(MaxInFlight(OneFOneBOrder(stage, stages, m)), std::min(m, stages - stage));
      }
    }
  }
}

TEST(Generators, ChosenByThePlan) {
  ParallelPlan plan{.pp = 2};
  plan.schedule = Schedule::kGPipe;
  EXPECT_EQ(Text(MakeComputeOrder(plan, 1, 2)), "1F0 1F1 1B0 1B1");
  plan.schedule = Schedule::kOneFOneB;
  EXPECT_EQ(Text(MakeComputeOrder(plan, 1, 2)), "1F0 1B0 1F1 1B1");
  plan.schedule = Schedule::kInterleaved;
  EXPECT_THROW(MakeComputeOrder(plan, 0, 2), std::logic_error);
}

TEST(Action, Text) {
  EXPECT_EQ(ToString({.kind = ActionKind::kForward, .stage = 2, .microbatch = 0}), "2F0");
  EXPECT_EQ(ToString({.kind = ActionKind::kSendActivation, .stage = 1, .microbatch = 3, .peer = 4}), "1SA3>4");
  EXPECT_EQ(ToString({.kind = ActionKind::kRecvGradient, .stage = 1, .microbatch = 3, .peer = 4}), "1RG3<4");
  EXPECT_EQ(ToString({.kind = ActionKind::kOptimizer}), "OPT");
  EXPECT_EQ(Name(ActionKind::kRecvActivation), "recv_activation");
  EXPECT_EQ(Name(Lane::kPipelineSend), "pp_send");
}

}  // namespace
}  // namespace autocfg
