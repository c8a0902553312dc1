// What the recorder makes of a step whose times the test sets.
#include "trainer/run/breakdown_recorder.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "trainer/comm/group.h"

namespace autocfg::trainer {
namespace {

// A clock and a stream that the test sets.
class HandClock final : public StepClock {
 public:
  void Restart() override {}
  double Seconds() const override { return now_s; }
  double OriginSeconds() const override { return 0; }
  bool IsVirtual() const override { return false; }
  std::optional<TimeSpan> Transfer(Lane, std::size_t) const override { return std::nullopt; }
  std::vector<TimeSpan> Collectives() const override { return collectives; }
  double now_s = 0;
  std::vector<TimeSpan> collectives;
};

// Takes a tenth of a second to become empty.
class SlowStream final : public Stream {
 public:
  explicit SlowStream(HandClock& clock) : clock_(clock) {}
  void Synchronize() override { clock_.now_s += 0.1; }

 private:
  HandClock& clock_;
};

TEST(BreakdownRecorder, SumsTheSectionsOfEachAction) {
  const RankProgram program = {Action{.kind = ActionKind::kRecvActivation, .lane = Lane::kPipelineRecv},
                               Action{.kind = ActionKind::kBackward}, Action{.kind = ActionKind::kBackward}};
  HandClock clock;
  SlowStream stream(clock);
  BreakdownRecorder recorder(program, clock, stream);
  const auto at = [&](double now_s) -> BreakdownRecorder& {
    clock.now_s = now_s;
    return recorder;
  };
  at(1).OnStart(0);
  at(2).OnEnd(0);
  at(2).OnStart(1);
  at(3).OnSectionStart(Section::kRecompute);
  at(4).OnSectionStart(Section::kCollective);
  at(5).OnSectionEnd(Section::kCollective);
  at(6).OnSectionEnd(Section::kRecompute);
  at(7).OnSectionStart(Section::kCollective);
  at(9).OnSectionEnd(Section::kCollective);
  at(10).OnEnd(1);
  at(10).OnStart(2);
  at(11).OnSectionStart(Section::kCollective);
  at(12).OnSectionEnd(Section::kCollective);
  at(13).OnEnd(2);
  const std::vector<ActionTime> times = recorder.Times();
  ASSERT_EQ(times.size(), 3u);
  EXPECT_EQ(times[0].start_s, 1);
  EXPECT_EQ(times[0].end_s, 2);
  EXPECT_EQ(times[0].collective_s, 0);
  EXPECT_EQ(times[1].start_s, 2);
  EXPECT_EQ(times[1].end_s, 10);
  EXPECT_DOUBLE_EQ(times[1].recompute_s, 3) << "its collective is part of it";
  EXPECT_DOUBLE_EQ(times[1].collective_s, 2);
  EXPECT_DOUBLE_EQ(times[2].collective_s, 1);
  EXPECT_EQ(times[2].recompute_s, 0);
}

// A collective runs from 3 to 9: beside the first compute until 4, then while the rank waits for another one,
// then beside the first compute again and the second one. A third action reduces.
TEST(BreakdownRecorder, CollectivesAreHiddenWhileTheRankComputes) {
  const RankProgram program = {Action{.kind = ActionKind::kForward}, Action{.kind = ActionKind::kBackward},
                               Action{.kind = ActionKind::kReduceGradients, .lane = Lane::kReduce}};
  HandClock clock;
  HostStream stream;
  BreakdownRecorder recorder(program, clock, stream);
  const auto at = [&](double now_s) -> BreakdownRecorder& {
    clock.now_s = now_s;
    return recorder;
  };
  at(1).OnStart(0);
  at(4).OnSectionStart(Section::kStates);
  at(6).OnSectionEnd(Section::kStates);
  at(7).OnEnd(0);
  at(8).OnStart(1);
  at(8.5).OnEnd(1);
  at(8.5).OnStart(2);
  at(8.5).OnSectionStart(Section::kCollective);
  at(10).OnSectionEnd(Section::kCollective);
  at(10).OnEnd(2);
  clock.collectives = {{3, 9}, {0, 0.5}, {8.5, 10}};
  const std::vector<ActionTime> times = recorder.Times();
  EXPECT_DOUBLE_EQ(times[0].hidden_s, 1 + 1);
  EXPECT_DOUBLE_EQ(times[1].hidden_s, 0.5);
  EXPECT_EQ(times[2].hidden_s, 0);
  EXPECT_DOUBLE_EQ(BreakdownOfRank(program, times, 10, false).hidden_comm_s, 2.5);
}

}  // namespace
}  // namespace autocfg::trainer
