// The orders that the generators make: published ones spelled out, and what is in flight.
#include "search/schedule/generators.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "search/schedule/compute_order.h"

namespace autocfg {
namespace {

std::string OrderText(const ComputeOrder& order) {
  std::string text;
  for (const Action& action : order) text += fmt::format("{}{}", text.empty() ? "" : " ", ToString(action));
  return text;
}

// Narayanan et al. 2021, figure 4 (top): four stages, eight microbatches.
TEST(OneFOneB, FourStagesEightMicrobatches) {
  EXPECT_EQ(OrderText(Unroll(OneFOneBOrder(0, 4, 8))),
            "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7");
  EXPECT_EQ(OrderText(Unroll(OneFOneBOrder(1, 4, 8))),
            "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1F6 1B4 1F7 1B5 1B6 1B7");
  EXPECT_EQ(OrderText(Unroll(OneFOneBOrder(2, 4, 8))),
            "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2F6 2B5 2F7 2B6 2B7");
  EXPECT_EQ(OrderText(Unroll(OneFOneBOrder(3, 4, 8))),
            "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7");
}

TEST(GPipe, AllForwardsThenAllBackwards) {
  EXPECT_EQ(OrderText(Unroll(GPipeOrder(2, 4, 3))), "2F0 2F1 2F2 2B0 2B1 2B2");
  EXPECT_EQ(OrderText(Unroll(GPipeOrder(0, 1, 1))), "0F0 0B0");
}

// Narayanan et al. 2021, figure 4 (bottom): four ranks of two chunks, eight microbatches. Rank 0 runs four
// microbatches through its first chunk, the same four through its second, two more, and then forwards and
// backwards in turn; the last rank starts after its first chunk.
TEST(Interleaved, FourRanksOfTwoChunksEightMicrobatches) {
  EXPECT_EQ(OrderText(Unroll(InterleavedOrder(0, 4, 2, 8))),
            "0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 4B0 0F7 4B1 4F4 4B2 4F5 4B3 4F6 0B0 4F7 0B1 0B2 0B3 "
            "4B4 4B5 4B6 4B7 0B4 0B5 0B6 "
            "0B7");
  EXPECT_EQ(OrderText(Unroll(InterleavedOrder(3, 4, 2, 8))),
            "3F0 3F1 3F2 3F3 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 3F4 3B0 3F5 3B1 3F6 3B2 3F7 3B3 7F4 7B4 7F5 7B5 "
            "7F6 7B6 7F7 7B7 3B4 3B5 3B6 "
            "3B7");
}

TEST(Interleaved, TwoRanksOfThreeChunks) {
  EXPECT_EQ(OrderText(Unroll(InterleavedOrder(0, 2, 3, 2))),
            "0F0 0F1 2F0 2F1 4F0 4F1 4B0 4B1 2B0 2B1 0B0 0B1")
      << "all of it is warm-up";
  EXPECT_EQ(OrderText(Unroll(InterleavedOrder(1, 2, 3, 2))),
            "1F0 1F1 3F0 3F1 5F0 5B0 5F1 5B1 3B0 3B1 1B0 1B1");
}

// Each forward and backward once, each microbatch through the chunks in order, and no backward before its
// forward.
TEST(Interleaved, CompleteAndInOrder) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    for (int chunks = 2; chunks <= 5; ++chunks) {
      for (int m = ranks; m <= 4 * ranks; m += ranks) {
        for (int rank = 0; rank < ranks; ++rank) {
          // stage, microbatch: 1 after the forward, 2 after the backward
          std::map<std::pair<int, int>, int> done;
          for (const Action& action : Unroll(InterleavedOrder(rank, ranks, chunks, m))) {
            ASSERT_EQ(action.stage % ranks, rank);
            const auto at = [&](int stage) { return done[{stage, action.microbatch}]; };
            const bool forward = action.kind == ActionKind::kForward;
            ASSERT_EQ(at(action.stage), forward ? 0 : 1) << ToString(action);
            const int before = action.stage + (forward ? -ranks : ranks);
            if (before >= 0 && before < ranks * chunks) {
              ASSERT_EQ(at(before), forward ? 1 : 2) << ToString(action);
            }
            ++done[{action.stage, action.microbatch}];
          }
          ASSERT_EQ(static_cast<int>(done.size()), chunks * m);
          for (const auto& [what, times] : done) ASSERT_EQ(times, 2);
        }
      }
    }
  }
}

TEST(Generators, InFlight) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int stage = 0; stage < stages; ++stage) {
      for (int m = 1; m <= 16; ++m) {
        EXPECT_EQ(MaxInFlight(Unroll(GPipeOrder(stage, stages, m)), stage), m);
        EXPECT_EQ(MaxInFlight(Unroll(OneFOneBOrder(stage, stages, m)), stage), std::min(m, stages - stage));
      }
    }
  }
}

TEST(Generators, ChosenByThePlan) {
  ParallelPlan plan{{.pp = 2}};
  plan.schedule = Schedule::kGPipe;
  EXPECT_EQ(OrderText(MakeComputeOrder(plan, 1, 2)), "1F0 1F1 1B0 1B1");
  plan.schedule = Schedule::kOneFOneB;
  EXPECT_EQ(OrderText(MakeComputeOrder(plan, 1, 2)), "1F0 1B0 1F1 1B1");
  plan.virtual_stages = 2;
  EXPECT_THROW(MakeComputeOrder(plan, 0, 2), std::logic_error);
  plan.schedule = Schedule::kInterleaved;
  EXPECT_EQ(OrderText(MakeComputeOrder(plan, 1, 2)), "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1");
  EXPECT_THROW(MakeComputeOrder(plan, 0, 3), std::logic_error);
  plan.virtual_stages = 1;
  EXPECT_THROW(MakeComputeOrder(plan, 0, 2), std::logic_error);
  plan.schedule = Schedule::kZeroBubbleH1;
  EXPECT_THROW(MakeComputeOrder(plan, 0, 2), std::logic_error);
}

TEST(Action, OrderText) {
  EXPECT_EQ(ToString({.kind = ActionKind::kForward, .stage = 2, .microbatch = 0}), "2F0");
  EXPECT_EQ(ToString({.kind = ActionKind::kSendActivation, .stage = 1, .microbatch = 3, .peer = 4}),
            "1SA3>4");
  EXPECT_EQ(ToString({.kind = ActionKind::kRecvGradient, .stage = 1, .microbatch = 3, .peer = 4}), "1RG3<4");
  EXPECT_EQ(ToString({.kind = ActionKind::kOptimizer}), "OPT");
  EXPECT_EQ(Name(ActionKind::kRecvActivation), "recv_activation");
  EXPECT_EQ(Name(Lane::kPipelineSend), "pp_send");
}

}  // namespace
}  // namespace autocfg
