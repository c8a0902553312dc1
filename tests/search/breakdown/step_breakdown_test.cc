// Divides hand-written steps of a rank.
#include "search/breakdown/step_breakdown.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "search/schedule/action_kinds.h"

namespace autocfg {
namespace {

Action Of(ActionKind kind, std::vector<std::int32_t> after = {}) {
  return {.kind = kind, .lane = LaneOf(kind), .after = std::move(after)};
}

TEST(StepBreakdown, EveryKindOfActionHasItsPart) {
  const RankProgram program = {
      Of(ActionKind::kZeroScalars),     Of(ActionKind::kForward),          Of(ActionKind::kBackward),
      Of(ActionKind::kInputGradient),   Of(ActionKind::kWeightGradient),   Of(ActionKind::kSumNormGradients),
      Of(ActionKind::kReduceGradients), Of(ActionKind::kSumTiedEmbedding), Of(ActionKind::kReduceScalars),
      Of(ActionKind::kOptimizer),       Of(ActionKind::kGatherParameters)};
  // start, end, in collectives, in recomputation, in those of sharded states
  const std::vector<ActionTime> times = {{0, 1},             //
                                         {1, 11, 3, 0, 2},   //
                                         {11, 31, 4, 6, 3},  //
                                         {31, 41, 2, 1},     //
                                         {41, 45},           //
                                         {45, 50, 5},        //
                                         {50, 60, 10},       //
                                         {60, 67, 7},        //
                                         {67, 70, 1},        //
                                         {70, 74},           //
                                         {74, 80, 6}};
  const RankBreakdown step = BreakdownOfRank(program, times, 80, false);
  EXPECT_EQ(step.parts.compute, 5 + 7 + 7 + 4);
  EXPECT_EQ(step.parts.recompute, 6 + 1);
  EXPECT_EQ(step.parts.tp_comm, 3 + 4 + 2 + 5);
  EXPECT_EQ(step.parts.pp_comm, 0);
  EXPECT_EQ(step.parts.dp_comm, 2 + 3 + 10 + 7 + 6);
  EXPECT_EQ(step.parts.bubble, 0);
  EXPECT_EQ(step.parts.optimizer, 1 + 2 + 4);
  EXPECT_EQ(step.parts.overhead, 1);
  EXPECT_EQ(step.parts.Total(), 80);
  EXPECT_EQ(ExposedComm(step.parts), 14 + 28);
  EXPECT_EQ(step.hidden_comm_s, 0);
}

// A rank in the middle of a pipeline: it waits for a message, computes while it sends, and waits at the end.
TEST(StepBreakdown, WaitingIsCommunicationWhileTheAwaitedMessageRuns) {
  const RankProgram program = {Of(ActionKind::kRecvActivation), Of(ActionKind::kForward, {0}),
                               Of(ActionKind::kSendActivation, {1}), Of(ActionKind::kRecvGradient),
                               Of(ActionKind::kBackward, {3})};
  const std::vector<ActionTime> times = {{2, 5}, {5, 10}, {12, 17}, {14, 16}, {16, 26}};
  const RankBreakdown step = BreakdownOfRank(program, times, 30, false);
  EXPECT_EQ(step.parts.compute, 15);
  EXPECT_EQ(step.parts.pp_comm, 3 + 2) << "the send runs from 12 on, but nothing waits for it";
  EXPECT_EQ(step.parts.bubble, 2 + 4 + 4) << "before the first message, before the gradient, at the end";
  EXPECT_EQ(step.parts.Total(), 30);
  EXPECT_EQ(step.hidden_comm_s, 1) << "the send while the backward runs";
}

// The receive of a gradient waits for the send that used its buffer; the last send is still running when the
// rank has nothing else to do.
TEST(StepBreakdown, WaitingForASendIsCommunication) {
  const RankProgram program = {Of(ActionKind::kBackward), Of(ActionKind::kSendGradient, {0}),
                               Of(ActionKind::kRecvGradient, {1}), Of(ActionKind::kBackward, {2}),
                               Of(ActionKind::kSendGradient, {3})};
  const std::vector<ActionTime> times = {{0, 4}, {4, 7}, {8, 9}, {9, 12}, {13, 15}};
  const RankBreakdown step = BreakdownOfRank(program, times, 16, false);
  EXPECT_EQ(step.parts.compute, 7);
  EXPECT_EQ(step.parts.pp_comm, 3 + 1 + 2);
  EXPECT_EQ(step.parts.bubble, 1 + 1 + 1);
  EXPECT_EQ(step.hidden_comm_s, 0);
}

TEST(StepBreakdown, MessagesThatRunTogetherAreAwaitedOnceAndHiddenEach) {
  const RankProgram program = {Of(ActionKind::kSendActivation),  Of(ActionKind::kRecvActivation),
                               Of(ActionKind::kForward, {0, 1}), Of(ActionKind::kSendActivation),
                               Of(ActionKind::kRecvGradient),    Of(ActionKind::kForward)};
  const std::vector<ActionTime> times = {{0, 6}, {2, 8}, {8, 10}, {10, 14}, {10, 12}, {10, 20}};
  const RankBreakdown step = BreakdownOfRank(program, times, 20, false);
  EXPECT_EQ(step.parts.pp_comm, 8);
  EXPECT_EQ(step.parts.compute, 12);
  EXPECT_EQ(step.hidden_comm_s, 4 + 2);
}

// A reduction that begins while the backward before it runs: what remains after the backward is exposed.
TEST(StepBreakdown, HiddenPartOfACollectiveIsNoPart) {
  const RankProgram program = {Of(ActionKind::kBackward), Of(ActionKind::kReduceGradients),
                               Of(ActionKind::kOptimizer, {1})};
  const std::vector<ActionTime> times = {{0, 10}, {6, 13}, {13, 14}};
  const RankBreakdown step = BreakdownOfRank(program, times, 14, false);
  EXPECT_EQ(step.parts.compute, 10);
  EXPECT_EQ(step.parts.dp_comm, 3);
  EXPECT_EQ(step.hidden_comm_s, 4);
  EXPECT_EQ(step.parts.Total(), 14);
}

TEST(StepBreakdown, ARankAloneHasNoBubble) {
  const RankProgram program = {Of(ActionKind::kForward), Of(ActionKind::kBackward)};
  const std::vector<ActionTime> times = {{1, 4}, {5, 9}};
  EXPECT_EQ(BreakdownOfRank(program, times, 12, true).parts.overhead, 1 + 1 + 3);
  EXPECT_EQ(BreakdownOfRank(program, times, 12, true).parts.bubble, 0);
  EXPECT_EQ(BreakdownOfRank(program, times, 12, false).parts.bubble, 5);
  EXPECT_EQ(BreakdownOfRank(program, times, 8, true).parts.Total(), 9) << "the last action ends later";
}

// Sections are read from another clock reading than the action: they never exceed it.
TEST(StepBreakdown, SectionsAreLimitedToTheirAction) {
  const RankProgram program = {Of(ActionKind::kBackward), Of(ActionKind::kReduceScalars)};
  const std::vector<ActionTime> times = {{0, 4, 3, 2}, {7, 8, 4}};
  const RankBreakdown step = BreakdownOfRank(program, times, 8, false);
  EXPECT_EQ(step.parts.recompute, 2);
  EXPECT_EQ(step.parts.tp_comm, 2);
  EXPECT_EQ(step.parts.compute, 0);
  EXPECT_EQ(step.parts.overhead, 1);
  EXPECT_EQ(step.parts.optimizer, 0);
  EXPECT_EQ(step.parts.bubble, 3);
}

}  // namespace
}  // namespace autocfg
