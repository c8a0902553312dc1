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

// Four stages, eight microbatches. Forwards and input gradients are in the order of 1F1B's forwards and
// backwards; stage s keeps the weight gradients of s microbatches for the end.
TEST(ZeroBubbleH1, FourStagesEightMicrobatches) {
  EXPECT_EQ(
      OrderText(Unroll(ZeroBubbleH1Order(0, 4, 8))),
      "0F0 0F1 0F2 0F3 0I0 0W0 0F4 0I1 0W1 0F5 0I2 0W2 0F6 0I3 0W3 0F7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7");
  EXPECT_EQ(
      OrderText(Unroll(ZeroBubbleH1Order(1, 4, 8))),
      "1F0 1F1 1F2 1I0 1F3 1I1 1W0 1F4 1I2 1W1 1F5 1I3 1W2 1F6 1I4 1W3 1F7 1I5 1W4 1I6 1W5 1I7 1W6 1W7");
  EXPECT_EQ(
      OrderText(Unroll(ZeroBubbleH1Order(2, 4, 8))),
      "2F0 2F1 2I0 2F2 2I1 2F3 2I2 2W0 2F4 2I3 2W1 2F5 2I4 2W2 2F6 2I5 2W3 2F7 2I6 2W4 2I7 2W5 2W6 2W7");
  EXPECT_EQ(
      OrderText(Unroll(ZeroBubbleH1Order(3, 4, 8))),
      "3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4 3I4 3W1 3F5 3I5 3W2 3F6 3I6 3W3 3F7 3I7 3W4 3W5 3W6 3W7");
}

TEST(ZeroBubbleH1, FewerMicrobatchesThanStages) {
  EXPECT_EQ(OrderText(Unroll(ZeroBubbleH1Order(0, 4, 2))), "0F0 0F1 0I0 0W0 0I1 0W1");
  EXPECT_EQ(OrderText(Unroll(ZeroBubbleH1Order(1, 4, 2))), "1F0 1F1 1I0 1I1 1W0 1W1");
  EXPECT_EQ(OrderText(Unroll(ZeroBubbleH1Order(3, 4, 2))), "3F0 3I0 3F1 3I1 3W0 3W1");
  EXPECT_EQ(OrderText(Unroll(ZeroBubbleH1Order(1, 4, 1))), "1F0 1I0 1W0");
}

// Without its weight gradients, the order is 1F1B's. Each weight gradient follows the input gradient of its
// microbatch by as many microbatches as there are stages before.
TEST(ZeroBubbleH1, DelaysWeightGradientsOfOneFOneB) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int stage = 0; stage < stages; ++stage) {
      for (int m = 1; m <= 20; ++m) {
        std::string others;
        std::int32_t inputs = 0, weights = 0;
        for (Action action : Unroll(ZeroBubbleH1Order(stage, stages, m))) {
          if (action.kind == ActionKind::kWeightGradient) {
            ASSERT_EQ(action.microbatch, weights++);
            ASSERT_TRUE(inputs == m || inputs == weights + stage) << stages << " " << stage << " " << m;
            continue;
          }
          if (action.kind == ActionKind::kInputGradient) {
            action.kind = ActionKind::kBackward;
            ++inputs;
          }
          others += (others.empty() ? "" : " ") + ToString(action);
        }
        ASSERT_EQ(others, OrderText(Unroll(OneFOneBOrder(stage, stages, m))));
        ASSERT_EQ(weights, m);
      }
    }
  }
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
        EXPECT_EQ(MaxInFlight(Unroll(ZeroBubbleH1Order(stage, stages, m)), stage), std::min(m, stages))
            << "no stage has more than the first one under 1F1B";
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
  EXPECT_EQ(OrderText(MakeComputeOrder(plan, 1, 2)), "1F0 1I0 1F1 1I1 1W0 1W1");
  plan.virtual_stages = 2;
  EXPECT_THROW(MakeComputeOrder(plan, 0, 2), std::logic_error);
}

TEST(Action, OrderText) {
  EXPECT_EQ(ToString({.kind = ActionKind::kForward, .stage = 2, .microbatch = 0}), "2F0");
  EXPECT_EQ(ToString({.kind = ActionKind::kSendActivation, .stage = 1, .microbatch = 3, .peer = 4}),
            "1SA3>4");
  EXPECT_EQ(ToString({.kind = ActionKind::kRecvGradient, .stage = 1, .microbatch = 3, .peer = 4}), "1RG3<4");
  EXPECT_EQ(ToString({.kind = ActionKind::kInputGradient, .stage = 2, .microbatch = 1}), "2I1");
  EXPECT_EQ(ToString({.kind = ActionKind::kWeightGradient, .stage = 2, .microbatch = 1}), "2W1");
  EXPECT_EQ(ToString({.kind = ActionKind::kOptimizer}), "OPT");
  EXPECT_EQ(Name(ActionKind::kRecvActivation), "recv_activation");
  EXPECT_EQ(Name(Lane::kPipelineSend), "pp_send");
}

}  // namespace
}  // namespace autocfg
