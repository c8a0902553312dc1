#include "search/cost/timing/program_timer.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/plan/model_stages.h"
#include "tests/search/cost/synthetic_device.h"

namespace autocfg {
namespace {

using test::Fp32;
using test::SmallGpt;
using ::testing::HasSubstr;

struct Times {
  double forward = 1, backward = 2, message = 0, rest = 0;
};

ActionSeconds Uniform(const Times& t) {
  return [t](std::int32_t, const Action& action) {
    switch (action.kind) {
      case ActionKind::kForward: return t.forward;
      case ActionKind::kBackward: return t.backward;
      case ActionKind::kSendActivation:
      case ActionKind::kRecvActivation:
      case ActionKind::kSendGradient:
      case ActionKind::kRecvGradient: return t.message;
      default: return t.rest;
    }
  };
}

ParallelPlan Pipeline(std::int64_t pp, Schedule schedule, std::int64_t virtual_stages = 1) {
  return {{.pp = pp}, {}, {.virtual_stages = virtual_stages, .schedule = schedule}};
}

double StepTime(const ParallelPlan& plan, std::int64_t microbatches, const Times& times) {
  const Program program = Lower({SmallGpt(StageCount(plan)), Fp32(microbatches * plan.dp, 16), plan});
  const auto step = TraceProgram(program, Uniform(times));
  EXPECT_TRUE(step.ok()) << step.status();
  return step.ok() ? step->step_time_s : -1;
}

// Bubble over work is (p - 1) / m for both schedules (Narayanan et al. 2021, section 2.2).
TEST(ProgramTimer, UniformStagesHaveTheKnownBubble) {
  for (Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB}) {
    for (std::int64_t pp : {1, 2, 4, 8}) {
      for (std::int64_t m : {1, 2, 7, 8, 32}) {
        EXPECT_DOUBLE_EQ(StepTime(Pipeline(pp, schedule), m, {}), 3.0 * static_cast<double>(m + pp - 1))
            << pp << " " << m;
      }
    }
  }
}

// Bubble over work is (p - 1) / (v m) where messages are free (Narayanan et al. 2021, section 2.2.2): the
// work of a rank is that of v m forwards and backwards of a stage, and p - 1 of each are waited for.
TEST(ProgramTimer, UniformInterleavedStagesHaveTheKnownBubble) {
  for (std::int64_t pp : {2, 3, 4, 5, 8}) {
    for (std::int64_t v : {2, 3, 4, 5}) {
      for (std::int64_t groups : {1, 2, 3, 5}) {
        const std::int64_t m = groups * pp;
        EXPECT_DOUBLE_EQ(StepTime(Pipeline(pp, Schedule::kInterleaved, v), m, {}),
                         3.0 * static_cast<double>(v * m + pp - 1))
            << pp << " " << v << " " << m;
      }
    }
  }
}

// Two ranks of two stages, two microbatches, F = 1, B = 2, message 0.5, by hand. Forwards: rank 0 has 0F0 at
// 0 and 0F1 at 1; then it waits for 1F0, which runs from 1.5 to 2.5 and is sent by 3: 2F0 from 3 to 4, then
// for 1F1 (2.5 to 3.5, sent by 4): 2F1 from 4 to 5. The last rank has 3F0 from 4.5 to 5.5, 3B0 to 7.5, 3F1
// (received behind it, by 8) to 9, 3B1 to 11. Rank 0 has 2B0 from 8 to 10, 2B1 from 11.5 to 13.5. Rank 1 has
// the gradient of 2B0 received behind 3B1, by 11.5: 1B0 to 13.5; that of 2B1 by 14: 1B1 to 16. Rank 0 has 0B0
// from 14 to 16, and 0B1 from 16.5.
TEST(ProgramTimer, InterleavedMessagesByHand) {
  EXPECT_DOUBLE_EQ(StepTime(Pipeline(2, Schedule::kInterleaved, 2), 2, {.message = 0.5}), 18.5);
}

// More stages of a rank pay in messages what they win in bubble.
TEST(ProgramTimer, InterleavingPaysOffWhileMessagesAreCheap) {
  const auto step = [](std::int64_t v, double message) {
    // A rank's work is the same for each v.
    const double part = 1.0 / static_cast<double>(v);
    const auto schedule = v == 1 ? Schedule::kOneFOneB : Schedule::kInterleaved;
    return StepTime(Pipeline(4, schedule, v), 8, {.forward = part, .backward = 2 * part, .message = message});
  };
  EXPECT_LT(step(2, 0), step(1, 0));
  EXPECT_LT(step(4, 0), step(2, 0));
  EXPECT_GT(step(4, 1), step(1, 1));
}

// A receive is not overlapped with the compute before it: on two stages of F = 1, B = 2, message 0.5, GPipe
// takes (1 + 1.5) + 3 * 1.5 forward, and 2 + 2.5 + 3 * 2.5 backward.
TEST(ProgramTimer, MessagesByHand) {
  EXPECT_DOUBLE_EQ(StepTime(Pipeline(2, Schedule::kGPipe), 4, {.message = 0.5}), 2.5 + 4.5 + 4.5 + 7.5);
  // 1F1B: F0 m F1 B1 m B0 with one microbatch.
  EXPECT_DOUBLE_EQ(StepTime(Pipeline(2, Schedule::kOneFOneB), 1, {.message = 0.5}),
                   1 + 0.5 + 1 + 2 + 0.5 + 2);
}

TEST(ProgramTimer, MessagesThatDominate) {
  // Message 10: each stage boundary carries 2 * m messages, none of which overlaps with another on two stages
  // of GPipe.
  const double step = StepTime(Pipeline(2, Schedule::kGPipe), 4, {.message = 10});
  EXPECT_DOUBLE_EQ(step, (1 + 11 + 3 * 11) + (2 + 12 + 3 * 12));
}

TEST(ProgramTimer, CollectivesWaitForAllRanks) {
  ParallelPlan plan;
  plan.dp = 2;
  const Program program = Lower({SmallGpt(2), Fp32(4, 16), plan});
  // Rank 1 is slow: 2 * (1 + 10) against 2 * (1 + 2); then reduction 5, scalars 1, update 3.
  const auto step = TraceProgram(program, [](std::int32_t rank, const Action& action) -> double {
    switch (action.kind) {
      case ActionKind::kForward: return 1;
      case ActionKind::kBackward: return rank == 1 ? 10 : 2;
      case ActionKind::kReduceGradients: return 5;
      case ActionKind::kReduceScalars: return 1;
      case ActionKind::kOptimizer: return 3;
      default: return 0;
    }
  });
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_DOUBLE_EQ(step->step_time_s, 22 + 5 + 1 + 3);
  EXPECT_DOUBLE_EQ(step->compute_busy_s[0], 6 + 3);
  EXPECT_DOUBLE_EQ(step->compute_busy_s[1], 22 + 3);
  for (const TraceRow& row : step->rows) {
    const Action& action =
        program.ranks[static_cast<std::size_t>(row.rank)][static_cast<std::size_t>(row.action)];
    EXPECT_EQ(row.lane, action.lane);
    if (action.kind == ActionKind::kReduceGradients) {
      EXPECT_DOUBLE_EQ(row.start_s, 22) << "on both ranks";
      EXPECT_DOUBLE_EQ(row.end_s, 27);
    }
  }
}

class Rows : public ::testing::TestWithParam<ParallelPlan> {};

TEST_P(Rows, FollowProgramAndLanes) {
  ParallelPlan plan = GetParam();
  plan.dp = 2;
  plan.tp = 2;
  const Program program = Lower({SmallGpt(8), Fp32(16, 16), plan});
  const auto step = TraceProgram(program, Uniform({.message = 0.25, .rest = 0.1}));
  ASSERT_TRUE(step.ok()) << step.status();
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    std::array<double, 4> lane_free{};
    std::vector<double> end;
    for (std::size_t i = 0; i < program.ranks[rank].size(); ++i, ++next) {
      const TraceRow& row = step->rows.at(next);
      ASSERT_EQ(row.rank, static_cast<std::int32_t>(rank));
      ASSERT_EQ(row.action, static_cast<std::int32_t>(i));
      for (std::int32_t after : program.ranks[rank][i].after) {
        EXPECT_GE(row.start_s, end[static_cast<std::size_t>(after)]);
      }
      EXPECT_GE(row.start_s, lane_free[static_cast<std::size_t>(row.lane)]);
      lane_free[static_cast<std::size_t>(row.lane)] = row.end_s;
      end.push_back(row.end_s);
    }
  }
  EXPECT_EQ(next, step->rows.size());
}

INSTANTIATE_TEST_SUITE_P(ProgramTimer, Rows,
                         ::testing::Values(Pipeline(4, Schedule::kOneFOneB), Pipeline(2, Schedule::kGPipe),
                                           Pipeline(2, Schedule::kInterleaved, 2),
                                           Pipeline(4, Schedule::kInterleaved, 2)));

// Stages of one rank may differ: two ranks of two stages, two microbatches, and only stage 2 is slow.
TEST(ProgramTimer, StagesOfARankOnTheirOwn) {
  const Program program = Lower({SmallGpt(4), Fp32(2, 16), Pipeline(2, Schedule::kInterleaved, 2)});
  const auto step = TraceProgram(program, [](std::int32_t, const Action& action) -> double {
    if (action.kind == ActionKind::kForward) return action.stage == 2 ? 10 : 1;
    if (action.kind == ActionKind::kBackward) return action.stage == 2 ? 20 : 2;
    return 0;
  });
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_DOUBLE_EQ(step->compute_busy_s[0], 2 * (3 + 30));
  EXPECT_DOUBLE_EQ(step->compute_busy_s[1], 2 * (3 + 3));
  // 0F0 0F1, then 2F0 and 2F1, 2B0 and 2B1 without a pause (3B0 is long done), then 1B1 and 0B1.
  EXPECT_DOUBLE_EQ(step->step_time_s, 2 + 2 * 10 + 2 * 20 + 2 + 2);
}

// Two ranks that each send before they receive: with nothing buffered, and the receive behind the send in
// `after`, neither moves.
TEST(ProgramTimer, StuckProgramsNameTheAction) {
  Program program;
  program.plan = Pipeline(2, Schedule::kOneFOneB);
  program.microbatches = 1;
  const auto exchange = [](std::int32_t peer, ActionKind send, ActionKind recv) {
    return RankProgram{Action{.kind = send,
                              .lane = Lane::kPipelineSend,
                              .stage = 0,
                              .microbatch = 0,
                              .peer = peer,
                              .after = {}},
                       Action{.kind = recv,
                              .lane = Lane::kPipelineRecv,
                              .stage = 0,
                              .microbatch = 0,
                              .peer = peer,
                              .after = {0}}};
  };
  program.ranks = {exchange(1, ActionKind::kSendActivation, ActionKind::kRecvGradient),
                   exchange(0, ActionKind::kSendGradient, ActionKind::kRecvActivation)};
  const auto stuck = TraceProgram(program, Uniform({}));
  ASSERT_EQ(stuck.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(stuck.status().message()), HasSubstr("rank 0: action 0"));
  EXPECT_THAT(std::string(stuck.status().message()), HasSubstr(ToString(program.ranks[0][0])));

  // A receive that nobody sends to.
  program.ranks = {{}, {exchange(0, ActionKind::kSendGradient, ActionKind::kRecvActivation)[1]}};
  program.ranks[1][0].after.clear();
  EXPECT_THAT(std::string(TraceProgram(program, Uniform({})).status().message()),
              HasSubstr("rank 1: action 0"));

  // Dependencies on what comes later, and peers that are not there.
  program.ranks[1][0].after = {0};
  EXPECT_THAT(std::string(TraceProgram(program, Uniform({})).status().message()),
              HasSubstr("is not before it"));
  program.ranks[1][0].after = {};
  program.ranks[1][0].peer = 7;
  EXPECT_THAT(std::string(TraceProgram(program, Uniform({})).status().message()), HasSubstr("no rank"));
}

}  // namespace
}  // namespace autocfg
