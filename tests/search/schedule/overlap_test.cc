// Programs whose messages overlap: each receive stands one compute earlier, and nothing else changes place.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/schedule/action_kinds.h"
#include "tests/search/schedule/programs.h"
#include "tests/support/plan_values.h"

namespace autocfg {
namespace {

using test::At;
using test::Find;
using test::Make;
using test::Move;
using test::Overlapping;
using test::Text;
using ::testing::HasSubstr;

TEST(Overlap, EveryActionAndWhatItWaitsFor) {
  const Program program = Make(Overlapping({{.pp = 2}}), 4);
  ASSERT_EQ(program.ranks.size(), 2u);
  // Gradients arrive in three buffers: 0RG3 waits for 0B0.
  EXPECT_EQ(Text(program.ranks[0]),
            "ZERO 0F0 0SA0>1@1 0RG0<1 0F1 0SA1>1@4 0B0@3 0RG1<1 0F2@2 0SA2>1@8 0B1@7 0RG2<1 0F3@5 "
            "0SA3>1@12 0RG3<1@6 0B2@11 0B3@14 TIED@16 SCALARS@17 OPT@18");
  // The input of microbatch 1 arrives in a second slot while 1B0 runs, that of microbatch 2 in the first one.
  EXPECT_EQ(
      Text(program.ranks[1]),
      "ZERO 1RA0<0 1F0@1 1RA1<0 1B0 1SG0>0@4 1F1@3 1RA2<0@4 1B1 1SG1>0@8 1F2@7 1RA3<0@8 1B2@5 1SG2>0@12 "
      "1F3@11 1B3@9 1SG3>0@15 TIED@15 SCALARS@17 OPT@18");
}

// Weight gradients receive nothing: messages arrive while they run too.
TEST(Overlap, SplitBackwards) {
  const Program program = Make(Overlapping({{.pp = 2}, {}, {.schedule = Schedule::kZeroBubbleH1}}), 3);
  EXPECT_EQ(
      Text(program.ranks[1]),
      "ZERO 1RA0<0 1F0@1 1RA1<0 1I0 1SG0>0@4 1F1@3 1I1 1SG1>0@7 1RA2<0 1W0 1F2@9 1I2@5 1SG2>0@12 1W1 1W2 "
      "TIED@15 SCALARS@16 OPT@17");
}

std::vector<ParallelPlan> Pipelines() {
  std::vector<ParallelPlan> plans;
  for (const Schedule schedule : test::PredictedSchedules()) {
    for (std::int64_t pp = 2; pp <= 5; ++pp) {
      const std::int64_t vpp = TakesVirtualStages(schedule) ? 2 + pp % 2 : 1;
      plans.push_back({{.pp = pp}, {}, {.virtual_stages = vpp, .schedule = schedule}});
    }
  }
  return plans;
}

// The texts of the actions that `keep` chooses, in order.
std::vector<std::string> Texts(const RankProgram& list, const std::function<bool(const Action&)>& keep) {
  std::vector<std::string> texts;
  for (const Action& action : list) {
    if (keep(action)) texts.push_back(ToString(action));
  }
  return texts;
}

// The order of each lane is that of the program without the option; a receive stands before the compute that
// precedes the one that needs it; a send stands right after its compute.
TEST(Overlap, OnlyReceivesMoveByOneCompute) {
  int receives = 0;
  for (const ParallelPlan& plan : Pipelines()) {
    for (const std::int64_t m : {plan.pp, 2 * plan.pp, 3 * plan.pp}) {
      const Program before = Make(plan, m), after = Make(Overlapping(plan), m);
      for (std::size_t r = 0; r < after.ranks.size(); ++r) {
        const RankProgram& list = after.ranks[r];
        for (const Lane lane : {Lane::kCompute, Lane::kPipelineSend, Lane::kPipelineRecv, Lane::kReduce}) {
          const auto on_lane = [lane](const Action& a) { return a.lane == lane; };
          EXPECT_EQ(Texts(list, on_lane), Texts(before.ranks[r], on_lane));
        }
        const auto others = [](const Action& a) { return !IsRecv(a.kind); };
        EXPECT_EQ(Texts(list, others), Texts(before.ranks[r], others));
        std::vector<const Action*> computes;
        for (const Action& a : list) {
          if (IsStageCompute(a.kind)) computes.push_back(&a);
        }
        std::size_t reached = 0;  // computes before the action
        for (const Action& a : list) {
          if (IsStageCompute(a.kind)) ++reached;
          if (!IsRecv(a.kind)) continue;
          const auto needs = std::find_if(computes.begin(), computes.end(), [&](const Action* c) {
            const bool takes = a.kind == ActionKind::kRecvActivation ? c->kind == ActionKind::kForward
                                                                     : MakesInputGradient(c->kind);
            return takes && c->stage == a.stage && c->microbatch == a.microbatch;
          });
          const auto position = static_cast<std::size_t>(needs - computes.begin());
          EXPECT_EQ(reached, position == 0 ? 0 : position - 1) << ToString(a);
          ++receives;
        }
      }
    }
  }
  EXPECT_GT(receives, 1000);
}

TEST(Overlap, ChangesNothingOnOneRank) {
  EXPECT_EQ(Text(Make(Overlapping({{.dp = 2}}), 3).ranks[0]), Text(Make({{.dp = 2}}, 3).ranks[0]));
}

struct OverlapFault {
  std::string name;
  std::function<void(Program&)> apply;
  std::vector<std::string> says;
};

class BrokenOverlap : public ::testing::TestWithParam<OverlapFault> {};

TEST_P(BrokenOverlap, IsRefusedByName) {
  Program program = Make(Overlapping({{.pp = 3}}), 6);
  ASSERT_TRUE(ValidateProgram(program).ok());
  GetParam().apply(program);
  const absl::Status status = ValidateProgram(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const std::string& text : GetParam().says) EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

INSTANTIATE_TEST_SUITE_P(
    Each, BrokenOverlap,
    ::testing::Values(
        OverlapFault{"SlotReused",
                     [](Program& p) { std::erase(At(p.ranks[1], "1RA3<0").after, Find(p.ranks[1], "1B0")); },
                     {"rank 1", "1RA3<0 does not wait for 1B0", "activation slot"}},
        OverlapFault{
            "SlotTakenEarlier",
            // Two computes before its forward: the slot is that of a microbatch whose backward is to come.
            [](Program& p) { Move(p.ranks[1], "1RA3<0", Find(p.ranks[1], "1B0")); },
            {"rank 1", "1RA3<0"}},
        OverlapFault{"GradientBufferReused",
                     [](Program& p) { std::erase(At(p.ranks[0], "0RG3<1").after, Find(p.ranks[0], "0B0")); },
                     {"rank 0", "0RG3<1 does not wait for 0B0", "gradient buffer"}},
        OverlapFault{
            "GradientBufferSentFrom",
            [](Program& p) { std::erase(At(p.ranks[1], "1RG3<2").after, Find(p.ranks[1], "1SG0>0")); },
            {"rank 1", "1RG3<2 does not wait for 1SG0>0", "gradient buffer"}},
        OverlapFault{"InputNotAwaited",
                     [](Program& p) { std::erase(At(p.ranks[1], "1F2").after, Find(p.ranks[1], "1RA2<0")); },
                     {"rank 1", "1F2 does not wait for 1RA2<0"}},
        OverlapFault{"OrdersDiffer",
                     [](Program& p) { Move(p.ranks[1], "1RA1<0", Find(p.ranks[1], "1RA0<0")); },
                     {"rank 1", "1RA1<0 meets 0SA0>1 of rank 0"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace autocfg
