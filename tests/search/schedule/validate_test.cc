// Lowered programs are proved right over all small layouts, and those broken by hand are refused by name.
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/search/schedule/programs.h"
#include "tests/support/plan_values.h"

namespace autocfg {
namespace {

using test::At;
using test::Erase;
using test::Find;
using test::Interleaved;
using test::Make;
using test::Move;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ValidateProgram, AcceptsEverySmallLayout) {
  int programs = 0;
  const std::vector<Schedule> schedules = test::PredictedPlainSchedules();
  for (const Schedule schedule : schedules) {
    for (std::int64_t pp = 1; pp <= 8; ++pp) {
      for (std::int64_t m = 1; m <= 16; ++m) {
        for (std::int64_t tp = 1; tp <= 2; ++tp) {
          for (std::int64_t dp = 1; dp <= 2; ++dp) {
            for (const bool overlap : {false, true}) {
              ParallelPlan plan{{.tp = tp, .pp = pp, .dp = dp}, {}, {.schedule = schedule}};
              plan.p2p_overlap = overlap;
              const absl::Status status = ValidateProgram(Make(plan, m));
              ASSERT_TRUE(status.ok()) << "tp " << tp << " pp " << pp << " dp " << dp << " m " << m
                                       << " overlap " << overlap << ": " << status;
              ++programs;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(programs, static_cast<int>(schedules.size()) * 8 * 16 * 4 * 2);
}

// Every pipeline of 2 to 8 ranks, 2 to 5 stages each, one to four groups of microbatches; beside a data or
// tensor axis now and then.
TEST(ValidateProgram, AcceptsEverySmallInterleavedLayout) {
  int programs = 0;
  for (std::int64_t pp = 2; pp <= 8; ++pp) {
    for (std::int64_t vpp = 2; vpp <= 5; ++vpp) {
      for (std::int64_t groups = 1; groups <= 4; ++groups) {
        const std::int64_t tp = 1 + (pp + groups) % 2, dp = 1 + (vpp + groups) % 2;
        for (const bool overlap : {false, true}) {
          const absl::Status status = ValidateProgram(Interleaved(pp, vpp, dp, groups * pp, tp, overlap));
          ASSERT_TRUE(status.ok()) << "pp " << pp << " vpp " << vpp << " m " << groups * pp << " overlap "
                                   << overlap << ": " << status;
          ++programs;
        }
      }
    }
  }
  EXPECT_EQ(programs, 7 * 4 * 4 * 2);
}

// Only the backward of microbatch 0 writes gradients, so it is the first of its stage.
TEST(ValidateProgram, RefusesABackwardBeforeTheOneThatWritesTheGradients) {
  Program program = Make(1, 1, 1, 3, Schedule::kGPipe);
  RankProgram& list = program.ranks[0];
  Move(list, "0B1", Find(list, "0B0"));
  EXPECT_THAT(std::string(ValidateProgram(program).message()),
              HasSubstr("0B1 does not wait for 0B0, which writes the gradients"));
}

TEST(ValidateProgram, AcceptsRandomInterleavedLayouts) {
  std::mt19937_64 random(3);
  const auto pick = [&random](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 60; ++i) {
    const std::int64_t pp = pick(2, 16), vpp = pick(2, 10), m = pp * pick(1, 6);
    const std::int64_t dp = pick(1, 2);
    for (const bool overlap : {false, true}) {
      const absl::Status status = ValidateProgram(Interleaved(pp, vpp, dp, m, 1, overlap));
      ASSERT_TRUE(status.ok()) << "pp " << pp << " vpp " << vpp << " m " << m << " overlap " << overlap
                               << ": " << status;
    }
  }
}

TEST(ValidateProgram, RefusesStagesOfOneRank) {
  Program program = Make(1, 1, 1, 2);
  program.plan.virtual_stages = 2;
  EXPECT_THAT(std::string(ValidateProgram(program).message()), HasSubstr("pipeline of one rank"));
}

struct Break {
  std::string name;
  std::function<void(Program&)> apply;
  std::vector<std::string> says;
};

class BrokenProgram : public ::testing::TestWithParam<Break> {};

TEST_P(BrokenProgram, IsRefusedByName) {
  Program program = Make(1, 4, 2, 6);
  ASSERT_TRUE(ValidateProgram(program).ok());
  GetParam().apply(program);
  const absl::Status status = ValidateProgram(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const std::string& text : GetParam().says) EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

// Rank 2 is stage 1 of the first data-parallel pipeline 0, 2, 4, 6.
RankProgram& Rank2(Program& program) { return program.ranks[2]; }

INSTANTIATE_TEST_SUITE_P(
    Each, BrokenProgram,
    ::testing::Values(
        Break{"MissingForward", [](Program& p) { Erase(Rank2(p), "1F3"); }, {"rank 2", "1F3 is missing"}},
        Break{"MissingBackward", [](Program& p) { Erase(Rank2(p), "1B5"); }, {"rank 2", "1B5 is missing"}},
        Break{"MissingSend", [](Program& p) { Erase(Rank2(p), "1SA0>4"); }, {"rank 2", "1SA0>4 is missing"}},
        Break{
            "MissingReceive", [](Program& p) { Erase(Rank2(p), "1RG2<4"); }, {"rank 2", "1RG2<4 is missing"}},
        Break{
            "MissingReduce", [](Program& p) { Erase(Rank2(p), "REDUCE"); }, {"rank 2", "REDUCE is missing"}},
        Break{"MissingOptimizer", [](Program& p) { Erase(Rank2(p), "OPT"); }, {"rank 2", "OPT is missing"}},
        Break{"MissingTied", [](Program& p) { Erase(p.ranks[6], "TIED"); }, {"rank 6", "TIED is missing"}},
        Break{"TiedInTheMiddle",
              [](Program& p) {
                Rank2(p).push_back({.kind = ActionKind::kSumTiedEmbedding, .lane = Lane::kReduce});
              },
              {"rank 2", "TIED does not belong on pipeline rank 1"}},
        Break{"Twice",
              [](Program& p) { Rank2(p).push_back(At(Rank2(p), "1F1")); },
              {"rank 2", "1F1 comes twice"}},
        Break{
            "WrongPeer", [](Program& p) { At(Rank2(p), "1SA2>4").peer = 5; }, {"rank 2", "1SA2>5", "not 4"}},
        Break{"WrongLane",
              [](Program& p) { At(Rank2(p), "1SA2>4").lane = Lane::kReduce; },
              {"1SA2>4", "wrong lane"}},
        Break{"WrongStage",
              [](Program& p) { At(Rank2(p), "1F2").stage = 2; },
              {"rank 2", "2F2 is not of a stage of pipeline rank 1"}},
        Break{"WrongMicrobatch",
              [](Program& p) { At(Rank2(p), "1F2").microbatch = 6; },
              {"1F6 names none of the 6"}},
        Break{"BackwardBeforeForward",
              [](Program& p) { Move(Rank2(p), "1B0", Find(Rank2(p), "1F0")); },
              {"rank 2", "1B0 waits for action"}},
        Break{"BackwardNotAfterForward",
              [](Program& p) {
                // On the last stage nothing but the lane orders the two.
                Move(p.ranks[6], "3B0", Find(p.ranks[6], "3F0"));
              },
              {"rank 6", "3B0 does not wait for 3F0"}},
        Break{"InputNotAwaited",
              [](Program& p) { At(Rank2(p), "1F4").after.clear(); },
              {"rank 2", "1F4 does not wait for 1RA4<0"}},
        Break{"GradientNotAwaited",
              [](Program& p) { At(Rank2(p), "1B1").after.clear(); },
              {"rank 2", "1B1 does not wait for 1RG1<4"}},
        Break{"SendBeforeItIsMade",
              [](Program& p) { At(Rank2(p), "1SA0>4").after.clear(); },
              {"rank 2", "1SA0>4 does not wait for 1F0"}},
        Break{"OutputBufferReused",
              [](Program& p) {
                auto& after = At(p.ranks[0], "0F2").after;
                std::erase(after, Find(p.ranks[0], "0SA0>2"));
              },
              {"rank 0", "0F2 does not wait for 0SA0>2", "output buffer"}},
        Break{"GradientBufferReused",
              [](Program& p) { std::erase(At(p.ranks[0], "0RG2<2").after, Find(p.ranks[0], "0B0")); },
              {"rank 0", "0RG2<2 does not wait for 0B0", "gradient buffer"}},
        Break{"GradientBufferOfLastStageReused",
              [](Program& p) { std::erase(At(p.ranks[6], "3B2").after, Find(p.ranks[6], "3SG0>4")); },
              {"rank 6", "3B2 does not wait for 3SG0>4", "gradient buffer"}},
        Break{"SlotReused",
              [](Program& p) { std::erase(At(Rank2(p), "1RA3<0").after, Find(Rank2(p), "1B0")); },
              {"rank 2", "1RA3<0 does not wait for 1B0", "activation slot"}},
        Break{"ReduceTooEarly",
              [](Program& p) { At(Rank2(p), "REDUCE").after.clear(); },
              {"rank 2", "REDUCE does not wait for 1B5"}},
        Break{"OptimizerTooEarly",
              [](Program& p) { At(Rank2(p), "OPT").after.clear(); },
              {"rank 2", "OPT does not wait for", "SCALARS"}},
        Break{"WaitsForItself",
              [](Program& p) { At(Rank2(p), "1B0").after.push_back(Find(Rank2(p), "1B0")); },
              {"rank 2", "1B0 waits for action", "not before it"}},
        Break{"OrdersDiffer",
              [](Program& p) {
                // Stage 0 forwards and sends microbatch 1 before 0; data allows it, the other side does not
                // expect it.
                Move(p.ranks[0], "0F1", Find(p.ranks[0], "0F0"));
                Move(p.ranks[0], "0SA1>2", Find(p.ranks[0], "0SA0>2"));
              },
              {"rank 2", "1RA0<0 meets 0SA1>2 of rank 0"}},
        Break{"Deadlock",
              [](Program& p) {
                // Each side waits for the other: the gradient of microbatch 0 is wanted before its activation
                // has left.
                RankProgram& list = p.ranks[0];
                Move(list, "0RG0<2", Find(list, "0SA0>2"));
                At(list, "0SA0>2").after.push_back(Find(list, "0RG0<2"));
              },
              {"rank 0", "0SA0>2 is stuck: it waits for 0RG0<2"}},
        Break{"AnotherRanksList", [](Program& p) { p.ranks[2] = p.ranks[4]; }, {"rank 2", "2RA0<2", "peer"}},
        Break{"NoList", [](Program& p) { p.ranks.pop_back(); }, {"7 lists", "8 ranks"}}),
    [](const auto& info) { return info.param.name; });

// Norms of queries and keys of a rank's own heads: the ranks of a tensor group sum their gradients, although
// they hold whole sequences.
TEST(ValidateProgram, NormsOfHeadsAreSummedByAllRanksOfATensorGroup) {
  ModelSpec model{.layers = 2, .hidden = 8, .heads = 2, .vocab = 8};
  FillDefaults(model);
  const Workload workload{.global_batch = 2, .seq_len = 4};
  const ParallelPlan plan{{.tp = 2}};
  const auto sums = [](const Program& program) {
    return std::ranges::count_if(program.ranks, [](const RankProgram& list) {
      return std::ranges::any_of(list,
                                 [](const Action& a) { return a.kind == ActionKind::kSumNormGradients; });
    });
  };
  EXPECT_EQ(sums(Lower({model, workload, plan})), 0);
  model.qk_norm = QkNorm::kFull;
  EXPECT_EQ(sums(Lower({model, workload, plan})), 0) << "their weights are split like the heads";
  model.qk_norm = QkNorm::kHead;
  EXPECT_EQ(sums(Lower({model, workload, {}})), 0) << "one rank has all heads";
  Program program = Lower({model, workload, plan});
  EXPECT_EQ(sums(program), 2);
  EXPECT_TRUE(ValidateProgram(program).ok()) << ValidateProgram(program);
  ModelSpec plain = model;
  plain.qk_norm = QkNorm::kNone;
  program.ranks[1] = Lower({plain, workload, plan}).ranks[1];
  EXPECT_THAT(std::string(ValidateProgram(program).message()),
              AllOf(HasSubstr("rank 1"), HasSubstr("NORMS is missing, but rank 0 has it")));
}

// Ranks that share key-value heads sum the gradients of those, without any data-parallel group.
TEST(ValidateProgram, SumsGradientsOfSharedHeadsOnAllRanksOrNone) {
  const ModelSpec model{.layers = 1, .heads = 4, .kv_heads = 1};
  const Workload workload{.global_batch = 2};
  const ParallelPlan plan{{.tp = 2}};
  Program program = Lower({model, workload, plan});
  EXPECT_TRUE(ValidateProgram(program).ok()) << ValidateProgram(program);
  ModelSpec two = model;
  two.kv_heads = 2;
  program.ranks[1] = Lower({two, workload, plan}).ranks[1];
  EXPECT_THAT(std::string(ValidateProgram(program).message()),
              AllOf(HasSubstr("rank 1"), HasSubstr("REDUCE is missing, but rank 0 has it")));
}

// Three stages, four microbatches. The last rank runs 2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3.
class BrokenZeroBubbleProgram : public ::testing::TestWithParam<Break> {};

TEST_P(BrokenZeroBubbleProgram, IsRefusedByName) {
  Program program = Make(1, 3, 1, 4, Schedule::kZeroBubbleH1);
  ASSERT_TRUE(ValidateProgram(program).ok());
  GetParam().apply(program);
  const absl::Status status = ValidateProgram(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const std::string& text : GetParam().says) EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

INSTANTIATE_TEST_SUITE_P(
    Each, BrokenZeroBubbleProgram,
    ::testing::Values(
        Break{"MissingInputGradient",
              [](Program& p) { Erase(p.ranks[1], "1I2"); },
              {"rank 1", "1I2 is missing"}},
        Break{"MissingWeightGradient",
              [](Program& p) { Erase(p.ranks[1], "1W2"); },
              {"rank 1", "1W2 is missing"}},
        Break{"WholeBackward",
              [](Program& p) { At(p.ranks[1], "1I2").kind = ActionKind::kBackward; },
              {"rank 1", "1B2 does not belong on stage 1"}},
        Break{"WeightGradientBeforeInputGradient",
              [](Program& p) { Move(p.ranks[2], "2W0", Find(p.ranks[2], "2I0")); },
              {"rank 2", "2W0 does not wait for 2I0, whose gradients it reads"}},
        Break{"WeightGradientsOutOfOrder",
              [](Program& p) { Move(p.ranks[2], "2W3", Find(p.ranks[2], "2W2")); },
              {"rank 2", "2W3 does not wait for 2W2, which comes first in the sums"}},
        Break{"HeadReused",
              [](Program& p) {
                for (const char* text : {"2RA1<1", "2F1"}) Move(p.ranks[2], text, Find(p.ranks[2], "2I0"));
              },
              {"rank 2", "2F1 does not wait for 2I0", "the tensors of the head"}},
        Break{"SlotReused",
              [](Program& p) { std::erase(At(p.ranks[2], "2RA3<1").after, Find(p.ranks[2], "2W0")); },
              {"rank 2", "2RA3<1 does not wait for 2W0", "activation slot"}},
        Break{"GradientBufferReused",
              [](Program& p) { std::erase(At(p.ranks[0], "0RG2<1").after, Find(p.ranks[0], "0I0")); },
              {"rank 0", "0RG2<1 does not wait for 0I0", "gradient buffer"}},
        Break{"ReduceTooEarly",
              [](Program& p) { At(p.ranks[2], "TIED").after = {Find(p.ranks[2], "2I3")}; },
              {"rank 2", "TIED does not wait for 2W3"}}),
    [](const auto& info) { return info.param.name; });

// Ranks 0, 1, 2 of two stages each: 0 and 3, 1 and 4, 2 and 5. Six microbatches.
class BrokenInterleavedProgram : public ::testing::TestWithParam<Break> {};

TEST_P(BrokenInterleavedProgram, IsRefusedByName) {
  Program program = Interleaved(3, 2, 1, 6);
  ASSERT_TRUE(ValidateProgram(program).ok());
  GetParam().apply(program);
  const absl::Status status = ValidateProgram(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const std::string& text : GetParam().says) EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

INSTANTIATE_TEST_SUITE_P(
    Each, BrokenInterleavedProgram,
    ::testing::Values(
        Break{"MissingForward", [](Program& p) { Erase(p.ranks[1], "4F3"); }, {"rank 1", "4F3 is missing"}},
        Break{"MissingBackward", [](Program& p) { Erase(p.ranks[1], "1B5"); }, {"rank 1", "1B5 is missing"}},
        Break{"MissingSendAround",
              [](Program& p) { Erase(p.ranks[2], "2SA0>0"); },
              {"rank 2", "2SA0>0 is missing"}},
        Break{"MissingReceiveAround",
              [](Program& p) { Erase(p.ranks[0], "3RA4<2"); },
              {"rank 0", "3RA4<2 is missing"}},
        Break{"MissingGradientAround",
              [](Program& p) { Erase(p.ranks[0], "3SG1>2"); },
              {"rank 0", "3SG1>2 is missing"}},
        Break{"Twice",
              [](Program& p) { p.ranks[0].push_back(At(p.ranks[0], "3F1")); },
              {"rank 0", "3F1 comes twice"}},
        Break{"LastStageSends",
              [](Program& p) {
                p.ranks[2].push_back(At(p.ranks[2], "2SA0>0"));
                p.ranks[2].back().stage = 5;
              },
              {"rank 2", "5SA0>0 does not belong on stage 5"}},
        Break{"FirstStageReceives",
              [](Program& p) {
                p.ranks[0].push_back(At(p.ranks[0], "3RA0<2"));
                p.ranks[0].back().stage = 0;
              },
              {"rank 0", "0RA0<2 does not belong on stage 0"}},
        Break{"WrongPeer",
              [](Program& p) { At(p.ranks[2], "2SA2>0").peer = 1; },
              {"rank 2", "2SA2>1", "not 0"}},
        Break{"StageOfAnotherRank",
              [](Program& p) { At(p.ranks[1], "4F2").stage = 3; },
              {"rank 1", "3F2 is not of a stage of pipeline rank 1"}},
        Break{"StageThatIsNone",
              [](Program& p) { At(p.ranks[1], "4F2").stage = 7; },
              {"rank 1", "7F2 is not of a stage of pipeline rank 1"}},
        Break{"ReductionOfAStage",
              [](Program& p) { At(p.ranks[1], "SCALARS").stage = 1; },
              {"rank 1", "of the whole rank"}},
        Break{"WrongStage", [](Program& p) { At(p.ranks[1], "4F2").stage = 1; }, {"rank 1", "comes twice"}},
        Break{"InputNotAwaited",
              [](Program& p) { std::erase(At(p.ranks[0], "3F0").after, Find(p.ranks[0], "3RA0<2")); },
              {"rank 0", "3F0 does not wait for 3RA0<2"}},
        Break{"GradientNotAwaited",
              [](Program& p) { std::erase(At(p.ranks[2], "2B1").after, Find(p.ranks[2], "2RG1<0")); },
              {"rank 2", "2B1 does not wait for 2RG1<0"}},
        Break{"SendBeforeItIsMade",
              [](Program& p) { At(p.ranks[2], "2SA0>0").after.clear(); },
              {"rank 2", "2SA0>0 does not wait for 2F0"}},
        Break{"BackwardNotAfterForward",
              // On the last stage nothing but the lane orders the two.
              [](Program& p) { Move(p.ranks[2], "5B0", Find(p.ranks[2], "5F0")); },
              {"rank 2", "5B0 does not wait for 5F0"}},
        // The send of stage 0's microbatch 1 is the rank's second, that of stage 3's microbatch 0 the fourth.
        Break{"OutputBufferReusedByAnotherStage",
              [](Program& p) { std::erase(At(p.ranks[0], "3F0").after, Find(p.ranks[0], "0SA1>1")); },
              {"rank 0", "3F0 does not wait for 0SA1>1", "output buffer"}},
        // 3B2 is the rank's third backward, 0B1 the fifth: stage 0's gradient arrives where stage 3's leaves
        // from.
        Break{"GradientBufferReusedByAnotherStage",
              [](Program& p) { std::erase(At(p.ranks[0], "0RG1<1").after, Find(p.ranks[0], "3SG2>2")); },
              {"rank 0", "0RG1<1 does not wait for 3SG2>2", "gradient buffer"}},
        // 2B1 is the last rank's fifth backward, 5B3 the seventh.
        Break{"GradientBufferOfLastStageReused",
              [](Program& p) { std::erase(At(p.ranks[2], "5B3").after, Find(p.ranks[2], "2SG1>1")); },
              {"rank 2", "5B3 does not wait for 2SG1>1", "gradient buffer"}},
        Break{"SlotReused",
              [](Program& p) { At(p.ranks[2], "5RA1<1").after.clear(); },
              {"rank 2", "5RA1<1 does not wait for 5B0", "activation slot"}},
        Break{"ReduceTooEarly",
              [](Program& p) { At(p.ranks[1], "SCALARS").after.clear(); },
              {"rank 1", "SCALARS does not wait for 1B5"}},
        Break{"OrdersDiffer",
              [](Program& p) {
                // The last rank's first stage forwards and sends microbatch 1 before 0.
                for (const char* text : {"2RA1<1", "2F1", "2SA1>0"})
                  Move(p.ranks[2], text, Find(p.ranks[2], "2F0"));
              },
              {"rank 0", "3RA0<2 meets 2SA1>0 of rank 2"}},
        Break{"StagesInAnotherOrder",
              // Rank 1 would take the first group through its second stage before its first one.
              [](Program& p) {
                for (Action& action : p.ranks[1]) {
                  const bool forwards = action.kind == ActionKind::kForward ||
                                        action.kind == ActionKind::kRecvActivation ||
                                        action.kind == ActionKind::kSendActivation;
                  if (forwards && action.microbatch < 3) action.stage = 5 - action.stage;
                }
              },
              {"rank 1", "4RA0<0 meets 0SA0>1 of rank 0"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace autocfg
