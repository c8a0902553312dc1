// Lowered programs are proved right over all small layouts, and broken ones are refused by name.
#include <algorithm>
#include <functional>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/schedule/program.h"

namespace autocfg {
namespace {

using ::testing::HasSubstr;

Program Make(std::int64_t tp, std::int64_t pp, std::int64_t dp, std::int64_t microbatches,
             Schedule schedule = Schedule::kOneFOneB, bool tied = true) {
  ModelSpec model{.layers = pp, .hidden = 16, .heads = 4, .vocab = 32, .tied_embeddings = tied};
  FillDefaults(model);
  ParallelPlan plan{.tp = tp, .pp = pp, .dp = dp};
  plan.schedule = schedule;
  return Lower(model, {.global_batch = dp * microbatches, .seq_len = 8, .precision = {}}, plan);
}

std::string Text(const RankProgram& list) {
  std::string text;
  for (const Action& action : list) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : " ", ToString(action), action.after.empty() ? "" : "@",
                        fmt::join(action.after, ","));
  }
  return text;
}

TEST(Lower, EveryActionAndWhatItWaitsFor) {
  const Program program = Make(1, 2, 2, 3);
  ASSERT_EQ(program.ranks.size(), 4u);
  EXPECT_EQ(Text(program.ranks[0]),
            "ZERO 0F0 0SA0>2@1 0F1 0SA1>2@3 0RG0<2 0B0@5 0F2@2 0SA2>2@7 0RG1<2 0B1@9 0RG2<2@6 0B2@11 REDUCE@12 "
            "TIED@13 SCALARS@14 OPT@15");
  EXPECT_EQ(Text(program.ranks[2]),
            "ZERO 1RA0<0 1F0@1 1B0 1SG0>0@3 1RA1<0@3 1F1@5 1B1 1SG1>0@7 1RA2<0@7 1F2@9 1B2@4 1SG2>0@11 REDUCE@11 "
            "TIED@13 SCALARS@14 OPT@15");
}

TEST(Lower, OneRank) {
  EXPECT_EQ(Text(Make(1, 1, 1, 2).ranks[0]), "ZERO 0F0 0B0 0F1 0B1 SCALARS@4 OPT@5");
}

TEST(Lower, NothingTiedNothingSummed) {
  const Program program = Make(1, 3, 1, 2, Schedule::kGPipe, false);
  for (const RankProgram& rank : program.ranks) EXPECT_THAT(Text(rank), ::testing::Not(HasSubstr("TIED")));
  EXPECT_TRUE(ValidateProgram(program).ok());
  // A stage between first and last never sums it.
  EXPECT_THAT(Text(Make(1, 3, 1, 2).ranks[1]), ::testing::Not(HasSubstr("TIED")));
}

TEST(ValidateProgram, AcceptsEverySmallLayout) {
  int programs = 0;
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB}) {
    for (std::int64_t pp = 1; pp <= 8; ++pp) {
      for (std::int64_t m = 1; m <= 16; ++m) {
        for (std::int64_t tp = 1; tp <= 2; ++tp) {
          for (std::int64_t dp = 1; dp <= 2; ++dp) {
            const absl::Status status = ValidateProgram(Make(tp, pp, dp, m, schedule));
            ASSERT_TRUE(status.ok()) << "tp " << tp << " pp " << pp << " dp " << dp << " m " << m << ": " << status;
            ++programs;
          }
        }
      }
    }
  }
  EXPECT_EQ(programs, 2 * 8 * 16 * 4);
}

TEST(Fingerprint, TellsProgramsApart) {
  const Program program = Make(2, 2, 1, 4);
  EXPECT_EQ(Fingerprint(program), Fingerprint(Make(2, 2, 1, 4)));
  EXPECT_NE(Fingerprint(program), Fingerprint(Make(2, 2, 1, 4, Schedule::kGPipe)));
  EXPECT_NE(Fingerprint(program), Fingerprint(Make(1, 2, 2, 4)));
  Program changed = program;
  changed.ranks[0].back().after.clear();
  EXPECT_NE(Fingerprint(program), Fingerprint(changed));
  // A fixed value, so that a change of the text form, which launcher and trainer compare, does not go unseen.
  EXPECT_EQ(Fingerprint(Program{}), 0xcbf29ce484222325u);
}

// ---- Broken by hand. ----

std::int32_t Find(const RankProgram& list, const std::string& text) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (ToString(list[i]) == text) return static_cast<std::int32_t>(i);
  }
  ADD_FAILURE() << text << " is not in " << Text(list);
  return 0;
}

// Takes an action out, and its index out of what the others wait for.
void Erase(RankProgram& list, const std::string& text) {
  const std::int32_t gone = Find(list, text);
  list.erase(list.begin() + gone);
  for (Action& action : list) {
    std::erase(action.after, gone);
    for (std::int32_t& after : action.after) after -= after > gone ? 1 : 0;
  }
}

// Moves an action to another place in the list; everything goes on waiting for what it waited for.
void Move(RankProgram& list, const std::string& text, std::int32_t to) {
  const std::int32_t from = Find(list, text);
  std::vector<std::int32_t> order(list.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  RankProgram moved;
  for (const std::int32_t i : order) moved.push_back(list[static_cast<std::size_t>(i)]);
  for (Action& action : moved) {
    for (std::int32_t& after : action.after) {
      after = static_cast<std::int32_t>(std::find(order.begin(), order.end(), after) - order.begin());
    }
  }
  list = moved;
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
Action& At(RankProgram& list, const std::string& text) { return list[static_cast<std::size_t>(Find(list, text))]; }

INSTANTIATE_TEST_SUITE_P(
    Each, BrokenProgram,
    ::testing::Values(
        Break{"MissingForward", [](Program& p) { Erase(Rank2(p), "1F3"); }, {"rank 2", "1F3 is missing"}},
        Break{"MissingBackward", [](Program& p) { Erase(Rank2(p), "1B5"); }, {"rank 2", "1B5 is missing"}},
        Break{"MissingSend", [](Program& p) { Erase(Rank2(p), "1SA0>4"); }, {"rank 2", "1SA0>4 is missing"}},
        Break{"MissingReceive", [](Program& p) { Erase(Rank2(p), "1RG2<4"); }, {"rank 2", "1RG2<4 is missing"}},
        Break{"MissingReduce", [](Program& p) { Erase(Rank2(p), "REDUCE"); }, {"rank 2", "REDUCE is missing"}},
        Break{"MissingOptimizer", [](Program& p) { Erase(Rank2(p), "OPT"); }, {"rank 2", "OPT is missing"}},
        Break{"MissingTied", [](Program& p) { Erase(p.ranks[6], "TIED"); }, {"rank 6", "TIED is missing"}},
        Break{"TiedInTheMiddle",
              [](Program& p) {
                Rank2(p).push_back({.kind = ActionKind::kSumTiedEmbedding, .lane = Lane::kReduce});
              },
              {"rank 2", "TIED does not belong on pipeline rank 1"}},
        Break{"Twice", [](Program& p) { Rank2(p).push_back(At(Rank2(p), "1F1")); }, {"rank 2", "1F1 comes twice"}},
        Break{"WrongPeer", [](Program& p) { At(Rank2(p), "1SA2>4").peer = 5; }, {"rank 2", "1SA2>5", "not 4"}},
        Break{"WrongLane", [](Program& p) { At(Rank2(p), "1SA2>4").lane = Lane::kReduce; }, {"1SA2>4", "wrong lane"}},
        Break{"WrongStage", [](Program& p) { At(Rank2(p), "1F2").stage = 2; }, {"rank 2", "2F2 is not of a stage of pipeline rank 1"}},
        Break{"WrongMicrobatch", [](Program& p) { At(Rank2(p), "1F2").microbatch = 6; }, {"1F6 names none of the 6"}},
        Break{"BackwardBeforeForward",
              [](Program& p) { Move(Rank2(p), "1B0", Find(Rank2(p), "1F0")); },
              {"rank 2", "1B0 waits for action"}},
        Break{"BackwardNotAfterForward",
              [](Program& p) {
                // On the last stage nothing but the lane orders the two.
                Move(p.ranks[6], "3B0", Find(p.ranks[6], "3F0"));
              },
              {"rank 6", "3B0 does not wait for 3F0"}},
        Break{"InputNotAwaited", [](Program& p) { At(Rank2(p), "1F4").after.clear(); },
              {"rank 2", "1F4 does not wait for 1RA4<0"}},
        Break{"GradientNotAwaited", [](Program& p) { At(Rank2(p), "1B1").after.clear(); },
              {"rank 2", "1B1 does not wait for 1RG1<4"}},
        Break{"SendBeforeItIsMade", [](Program& p) { At(Rank2(p), "1SA0>4").after.clear(); },
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
        Break{"ReduceTooEarly", [](Program& p) { At(Rank2(p), "REDUCE").after.clear(); },
              {"rank 2", "REDUCE does not wait for 1B5"}},
        Break{"OptimizerTooEarly", [](Program& p) { At(Rank2(p), "OPT").after.clear(); },
              {"rank 2", "OPT does not wait for", "SCALARS"}},
        Break{"WaitsForItself",
              [](Program& p) { At(Rank2(p), "1B0").after.push_back(Find(Rank2(p), "1B0")); },
              {"rank 2", "1B0 waits for action", "not before it"}},
        Break{"OrdersDiffer",
              [](Program& p) {
                // Stage 0 forwards and sends microbatch 1 before 0; data allows it, the other side does not expect it.
                Move(p.ranks[0], "0F1", Find(p.ranks[0], "0F0"));
                Move(p.ranks[0], "0SA1>2", Find(p.ranks[0], "0SA0>2"));
              },
              {"rank 2", "1RA0<0 meets 0SA1>2 of rank 0"}},
        Break{"Deadlock",
              [](Program& p) {
                // Each side waits for the other: the gradient of microbatch 0 is wanted before its activation has left.
                RankProgram& list = p.ranks[0];
                Move(list, "0RG0<2", Find(list, "0SA0>2"));
                At(list, "0SA0>2").after.push_back(Find(list, "0RG0<2"));
              },
              {"rank 0", "0SA0>2 is stuck: it waits for 0RG0<2"}},
        Break{"AnotherRanksList", [](Program& p) { p.ranks[2] = p.ranks[4]; }, {"rank 2", "2RA0<2", "peer"}},
        Break{"NoList", [](Program& p) { p.ranks.pop_back(); }, {"7 lists", "8 ranks"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace autocfg
