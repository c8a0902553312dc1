// Tests what the runner reports to an observer, and which buffers a rank's program uses.
#include "trainer/run/runner.h"

#include <gtest/gtest.h>

#include <mutex>

#include "tests/trainer/thread_ranks.h"
#include "trainer/run/buffer_plan.h"

namespace autocfg::trainer {
namespace {

RankShape ShapeOf(const ParallelPlan& plan, std::int64_t rank, std::int64_t microbatches) {
  TrainConfig c = test::SmallConfig();
  c.model.layers = plan.pp * plan.virtual_stages;
  c.workload.global_batch = microbatches;
  return MakeRankShape({c.model, c.workload, plan}, rank);
}

Action At(ActionKind kind, std::int32_t stage, std::int32_t microbatch) {
  return {.kind = kind, .stage = stage, .microbatch = microbatch};
}

// Rank 0 of two, with stages 0 and 2 of four: an artificial order that shows each rule.
TEST(BufferPlan, TakesTheLowestFreeSlotAndCountsAcrossStages) {
  const RankShape shape =
      ShapeOf({{.pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}}, 0, 2);
  constexpr ActionKind kF = ActionKind::kForward, kB = ActionKind::kBackward;
  const BufferPlan plan(shape, {At(kF, 0, 0), At(kF, 0, 1), At(kF, 2, 0), At(kB, 2, 0), At(kF, 2, 1),
                                At(kB, 2, 1), At(kB, 0, 1), At(kB, 0, 0)});
  EXPECT_EQ(plan.At(0, 0).slot, 0u);
  EXPECT_EQ(plan.At(0, 1).slot, 1u);
  EXPECT_EQ(plan.At(1, 0).slot, 0u);
  EXPECT_EQ(plan.At(1, 1).slot, 0u) << "released by the first";
  EXPECT_EQ(plan.At(0, 1).output, 1);
  EXPECT_EQ(plan.At(1, 0).output, 2);
  EXPECT_EQ(plan.At(1, 1).output, 3);
  EXPECT_EQ(plan.At(1, 0).gradient, 0);
  EXPECT_EQ(plan.At(0, 0).gradient, 3);
}

TEST(BufferPlan, SkipsForwardsThatSendNothing) {
  const RankShape shape =
      ShapeOf({{.pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}}, 1, 2);
  constexpr ActionKind kF = ActionKind::kForward, kB = ActionKind::kBackward;
  const BufferPlan plan(shape, {At(kF, 1, 0), At(kF, 3, 0), At(kB, 3, 0), At(kF, 1, 1), At(kF, 3, 1),
                                At(kB, 3, 1), At(kB, 1, 0), At(kB, 1, 1)});
  EXPECT_EQ(plan.At(0, 0).output, 0);
  EXPECT_EQ(plan.At(0, 1).output, 1);
  EXPECT_EQ(plan.At(1, 0).output, -1);
}

TEST(BufferPlan, RejectsInvalidPrograms) {
  const RankShape shape = ShapeOf({{.pp = 2}}, 0, 1);
  constexpr ActionKind kF = ActionKind::kForward, kB = ActionKind::kBackward;
  EXPECT_NO_THROW(BufferPlan(shape, {At(kF, 0, 0), At(kB, 0, 0)}));
  EXPECT_THROW(BufferPlan(shape, {At(kF, 0, 0)}), std::logic_error);
  EXPECT_THROW(BufferPlan(shape, {At(kB, 0, 0), At(kF, 0, 0)}), std::logic_error);
  EXPECT_THROW(BufferPlan(shape, {At(kF, 0, 0), At(kF, 0, 0), At(kB, 0, 0)}), std::logic_error);
}

// Under ZB-H1, a microbatch has its slot until its weight gradient, its gradient buffer until its input
// gradient.
TEST(BufferPlan, SplitBackwardsFreeTheSlotLast) {
  const RankShape shape = ShapeOf({{.pp = 2}, {}, {.schedule = Schedule::kZeroBubbleH1}}, 1, 3);
  constexpr ActionKind kF = ActionKind::kForward, kI = ActionKind::kInputGradient,
                       kW = ActionKind::kWeightGradient;
  const BufferPlan plan(shape, {At(kF, 1, 0), At(kI, 1, 0), At(kF, 1, 1), At(kW, 1, 0), At(kF, 1, 2),
                                At(kI, 1, 2), At(kI, 1, 1), At(kW, 1, 1), At(kW, 1, 2)});
  EXPECT_EQ(plan.At(0, 1).slot, 1u) << "the input gradient of microbatch 0 has not freed its slot";
  EXPECT_EQ(plan.At(0, 2).slot, 0u);
  EXPECT_EQ(plan.At(0, 2).gradient, 1);
  EXPECT_EQ(plan.At(0, 1).gradient, 2);
  const RankShape once = ShapeOf({{.pp = 2}, {}, {.schedule = Schedule::kZeroBubbleH1}}, 1, 1);
  EXPECT_THROW(BufferPlan(once, {At(kF, 1, 0), At(kW, 1, 0), At(kI, 1, 0)}), std::logic_error);
  EXPECT_THROW(BufferPlan(once, {At(kF, 1, 0), At(kI, 1, 0)}), std::logic_error);
  EXPECT_THROW(BufferPlan(once, {At(kF, 1, 0), At(kI, 1, 0), At(kI, 1, 0), At(kW, 1, 0)}), std::logic_error);
}

// Records each event by the index of its action.
class Recorder : public ActionObserver {
 public:
  struct Event {
    std::size_t action;
    bool start;
  };
  void OnStart(std::size_t action) override { events.push_back({action, true}); }
  void OnEnd(std::size_t action) override { events.push_back({action, false}); }
  std::vector<Event> events;
};

// Checks that every action starts once, in program order, and ends once, after its dependencies have ended.
// Compute ends before anything else starts.
void ExpectProperEvents(const RankProgram& program, const std::vector<Recorder::Event>& events) {
  std::vector<int> start(program.size(), -1), end(program.size(), -1);
  std::size_t next = 0;
  for (int t = 0; t < static_cast<int>(events.size()); ++t) {
    const auto [action, is_start] = events[static_cast<std::size_t>(t)];
    if (is_start) {
      EXPECT_EQ(action, next++);
      start[action] = t;
      for (const std::int32_t earlier : program[action].after) {
        EXPECT_GE(end[static_cast<std::size_t>(earlier)], 0)
            << ToString(program[action]) << " began before "
            << ToString(program[static_cast<std::size_t>(earlier)]) << " was seen to end";
      }
    } else {
      EXPECT_EQ(end[action], -1) << "ended twice";
      EXPECT_GE(start[action], 0);
      end[action] = t;
    }
  }
  EXPECT_EQ(next, program.size());
  for (std::size_t i = 0; i < program.size(); ++i)
    EXPECT_GE(end[i], 0) << ToString(program[i]) << " never ended";
  for (std::size_t i = 0; i + 1 < program.size(); ++i) {
    if (program[i].lane != Lane::kCompute) continue;
    EXPECT_LT(end[i], start[i + 1]);
  }
}

TEST(Runner, NotifiesObserverOfEveryAction) {
  TrainConfig c = test::SmallConfig();
  c.lr.steps = 1;
  std::mutex mutex;
  int ranks_seen = 0;
  for (const ParallelPlan& plan :
       {ParallelPlan{{.tp = 2, .dp = 2}}, ParallelPlan{{.pp = 4}},
        ParallelPlan{{.pp = 2}, {}, {.schedule = Schedule::kZeroBubbleH1}},
        ParallelPlan{{.pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}}}) {
    c.plan = plan;
    test::RunAsThreads(c, test::World::kUcx, [&](RankTrainer& trainer) {
      Recorder recorder;
      trainer.SetObserver(&recorder);
      trainer.Step();
      trainer.SetObserver(nullptr);
      const std::size_t seen = recorder.events.size();
      trainer.Step();
      const std::lock_guard lock(mutex);
      EXPECT_EQ(recorder.events.size(), seen) << "notified after it was removed";
      ExpectProperEvents(trainer.program(), recorder.events);
      ++ranks_seen;
    });
  }
  EXPECT_EQ(ranks_seen, 12);
}

}  // namespace
}  // namespace autocfg::trainer
