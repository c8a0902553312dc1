// Tests what a traced run reports of its last step, on real ranks and in the recorder alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/trainer/thread_ranks.h"
#include "trainer/run/trace_recorder.h"
#include "trainer/run/train_loop.h"

namespace autocfg::trainer {
namespace {

using test::RunThreads;
using test::SmallConfig;

TEST(Trace, HasEveryActionOfTheLastStepOnce) {
  TrainConfig c = SmallConfig();
  c.plan = {{.tp = 1, .pp = 2, .dp = 2}};
  c.lr.steps = 3;
  c.trace = true;
  const Program program = Lower(c);
  std::vector<v1::TrainResult> results(4);
  auto rendezvous = CreateLocalRendezvous(4);
  RunThreads(4, [&](int rank) {
    Backend backend = CreateTrainBackend(EngineDevice::kCpu, *rendezvous[static_cast<std::size_t>(rank)], c);
    results[static_cast<std::size_t>(rank)] = Train(c, rank, 4, backend, {});
  });
  double earliest_s = 1e9;
  for (int rank = 0; rank < 4; ++rank) {
    const RankProgram& actions = program.ranks[static_cast<std::size_t>(rank)];
    const v1::TrainResult& result = results[static_cast<std::size_t>(rank)];
    ASSERT_EQ(result.trace_size(), static_cast<int>(actions.size()));
    std::map<std::string, double> free_s;  // by lane
    const double first_s = result.trace(0).start_s();
    earliest_s = std::min(earliest_s, first_s);
    for (int i = 0; i < result.trace_size(); ++i) {
      const v1::TraceRow& row = result.trace(i);
      const Action& action = actions[static_cast<std::size_t>(i)];
      EXPECT_EQ(row.rank(), rank);
      EXPECT_EQ(row.action(), i);
      EXPECT_EQ(row.lane(), Name(action.lane));
      EXPECT_GE(row.start_s(), free_s[row.lane()]) << "rows of a lane overlap";
      EXPECT_GE(row.end_s(), row.start_s());
      free_s[row.lane()] = row.end_s();
      EXPECT_LE(row.end_s() - first_s, result.step_time_s(2));
      if (action.lane != Lane::kCompute) continue;
      EXPECT_GT(row.end_s(), row.start_s());
      for (const std::int32_t before : action.after) EXPECT_GE(row.start_s(), result.trace(before).end_s());
    }
  }
  EXPECT_GE(earliest_s, 0);
}

TEST(Trace, IsOffByDefault) {
  TrainConfig c = SmallConfig();
  c.lr.steps = 1;
  auto rendezvous = CreateLocalRendezvous(1);
  Backend backend = CreateTrainBackend(EngineDevice::kCpu, *rendezvous[0], c);
  EXPECT_EQ(Train(c, 0, 1, backend, {}).trace_size(), 0);
}

// A clock that the test sets.
class SetClock final : public StepClock {
 public:
  void Restart() override {}
  double Seconds() const override { return now_s; }
  double OriginSeconds() const override { return 0; }
  bool IsVirtual() const override { return false; }
  std::optional<TimeSpan> Transfer(Lane, std::size_t) const override { return std::nullopt; }
  std::vector<TimeSpan> Collectives() const override { return {}; }
  double now_s = 0;
};

// Two sends around a forward, whose ends are observed in the wrong order.
TEST(Trace, RowsOfALaneDoNotOverlap) {
  const auto send = [](int k) {
    return Action{.kind = ActionKind::kSendActivation, .lane = Lane::kPipelineSend, .microbatch = k};
  };
  const RankProgram program = {send(0), send(1), Action{.kind = ActionKind::kForward}};
  SetClock clock;
  TraceRecorder recorder(3, program, clock);
  const auto at = [&](double now_s) -> TraceRecorder& {
    clock.now_s = now_s;
    return recorder;
  };
  at(1).OnStart(0);
  at(2).OnStart(1);
  at(4).OnStart(2);
  at(6).OnEnd(2);
  at(7).OnEnd(1);
  at(9).OnEnd(0);
  const std::vector<TraceRow> rows = recorder.Rows(0.5);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].rank, 3);
  EXPECT_EQ(rows[0].start_s, 1.5);
  EXPECT_EQ(rows[0].end_s, 7.5) << "it ended no later than the next in its lane";
  EXPECT_EQ(rows[1].start_s, 7.5);
  EXPECT_EQ(rows[1].end_s, 7.5);
  EXPECT_EQ(rows[2].start_s, 4.5);
  EXPECT_EQ(rows[2].end_s, 6.5);
}

}  // namespace
}  // namespace autocfg::trainer
