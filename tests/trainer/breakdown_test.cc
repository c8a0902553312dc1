// The measured breakdown of a step: on the paced device against the predicted one, on CPUs against the time
// of the step.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "base/fnv1a.h"
#include "proto/convert/breakdown_convert.h"
#include "proto/convert/step_timeline.h"
#include "proto/merge_results.h"
#include "search/cost/cost_model.h"
#include "search/cost/plan_op_times.h"
#include "search/plan/plan_text.h"
#include "search/plan/rank_mesh.h"
#include "search/schedule/action_kinds.h"
#include "tests/search/cost/synthetic_device.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/layout/errors.h"
#include "trainer/run/train_loop.h"

namespace autocfg::trainer {
namespace {

using test::Fp32;
using test::LocalRanks;
using test::RunThreads;
using test::SmallConfig;
using test::SmallGpt;

struct RecordedRun {
  std::vector<v1::TrainResult> ranks;
  std::vector<double> progress_s;  // by step
};

RecordedRun RunRecorded(EngineDevice device, const TrainConfig& c) {
  const int ranks = static_cast<int>(RankCount(c.plan));
  auto rendezvous = CreateLocalRendezvous(ranks);
  RecordedRun run;
  run.ranks.resize(static_cast<std::size_t>(ranks));
  RunThreads(ranks, [&](int rank) {
    Backend backend = CreateTrainBackend(device, *rendezvous[static_cast<std::size_t>(rank)], c);
    run.ranks[static_cast<std::size_t>(rank)] = Train(
        c, rank, ranks, backend, [&](const v1::Progress& p) { run.progress_s.push_back(p.step_time_s()); });
  });
  return run;
}

// Between 1 us and 1 ms, another time for every op. Sums of squares take none: the paced device counts them
// in the reduction that follows, predictions in the optimizer.
class NamedOpTimes final : public OpTimeModel {
 public:
  double Seconds(const OpDesc& op, const ParallelPlan&) const override {
    if (op.kind == OpKind::kSumOfSquares) return 0;
    return 1e-6 * static_cast<double>(1 + (base::Fnv1a(ToString(op)) >> 20) % 1000);
  }
};

TrainConfig RecordedConfig(const ModelSpec& model, const Workload& workload, const ParallelPlan& plan) {
  TrainConfig c;
  c.model = model;
  c.workload = workload;
  c.plan = plan;
  c.untimed_steps = 1;
  c.lr.steps = 2;
  c.record_breakdown = true;
  for (const OpTime& time : PlanOpTimes({model, workload, plan}, NamedOpTimes()))
    c.op_times.emplace(time.op, time.seconds);
  return c;
}

std::vector<ParallelPlan> RecordedPlans() {
  return {ParallelPlan{},
          ParallelPlan{{.tp = 2}, {.recompute = Recompute::kFull}},
          ParallelPlan{{.dp = 2}},
          ParallelPlan{{.pp = 4}, {}, {.schedule = Schedule::kGPipe}},
          ParallelPlan{{.tp = 2, .pp = 2, .dp = 2}, {.recompute = Recompute::kFull}},
          ParallelPlan{{.tp = 2, .pp = 4}, {}, {.schedule = Schedule::kZeroBubbleH1}},
          ParallelPlan{{.pp = 2, .dp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}}};
}

void ExpectPart(double got, double want, const std::string& what) { EXPECT_NEAR(got, want, 1e-9) << what; }

// Without host times and with equal op times, device and predictor agree to the last microsecond. So every
// part that both define alike is equal, on every rank.
TEST(Breakdown, OfThePacedDeviceIsThatOfThePredictedTrace) {
  const ModelSpec model = SmallGpt(4, 16, 4, 61);
  const Workload workload = Fp32(8, 8);
  for (const ParallelPlan& plan : RecordedPlans()) {
    SCOPED_TRACE(::testing::Message() << "tp=" << plan.tp << " pp=" << plan.pp << " dp=" << plan.dp);
    const RecordedRun run = RunRecorded(EngineDevice::kPaced, RecordedConfig(model, workload, plan));
    CostModel costs({model, workload, LocalRanks(RankCount(plan))}, std::make_shared<NamedOpTimes>());
    const TracedStep traced = costs.Trace(plan);
    const Program program = Lower({model, workload, plan});
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      SCOPED_TRACE(rank);
      const v1::TrainResult& result = run.ranks[rank];
      ASSERT_TRUE(result.has_breakdown_s());
      ASSERT_EQ(result.step_time_s_size(), 1) << "the recorded step is not timed";
      const Breakdown measured = FromProto(result.breakdown_s());
      ExpectPart(measured.Total(), result.step_time_s(0), "the step");
      std::vector<ActionTime> times;
      for (const TraceRow& row : traced.rows) {
        if (row.rank == static_cast<std::int32_t>(rank)) times.push_back({row.start_s, row.end_s});
      }
      const RankBreakdown predicted =
          BreakdownOfRank(program.ranks[rank], times, traced.step_time_s, RankCount(plan) == 1);
      // A predicted row does not say what is communication or recomputation inside of it.
      ExpectPart(measured.compute + measured.recompute + measured.tp_comm,
                 predicted.parts.compute + predicted.parts.recompute + predicted.parts.tp_comm, "worked");
      ExpectPart(measured.pp_comm, predicted.parts.pp_comm, "pp_comm");
      ExpectPart(measured.dp_comm, predicted.parts.dp_comm, "dp_comm");
      ExpectPart(measured.bubble, predicted.parts.bubble, "bubble");
      ExpectPart(measured.optimizer + measured.overhead, predicted.parts.optimizer + predicted.parts.overhead,
                 "optimizer and overhead");
      ExpectPart(result.breakdown_s().hidden_comm(), predicted.hidden_comm_s, "hidden");
    }
  }
}

// The rank that stands for the run is the one to which the prediction attributes the step. What comes after
// the pipeline, the prediction takes from the slowest rank each: so where ranks of a pipeline differ in their
// reductions, they are equal in sum only.
TEST(Breakdown, OfThePacedDeviceIsThePredictedOne) {
  const ModelSpec model = SmallGpt(4, 16, 4, 61);
  const Workload workload = Fp32(8, 8);
  int plans_that_hide = 0;
  for (const ParallelPlan& plan : RecordedPlans()) {
    SCOPED_TRACE(::testing::Message() << "tp=" << plan.tp << " pp=" << plan.pp << " dp=" << plan.dp);
    const auto run =
        MergeRanks(RunRecorded(EngineDevice::kPaced, RecordedConfig(model, workload, plan)).ranks);
    ASSERT_TRUE(run.ok()) << run.status();
    const v1::Breakdown merged = MeasurementOf(*run)->breakdown_s();
    const Breakdown measured = FromProto(merged);
    CostModel costs({model, workload, LocalRanks(RankCount(plan))}, std::make_shared<NamedOpTimes>());
    const Breakdown predicted = costs.Predict(plan).breakdown;
    ExpectPart(measured.Total(), predicted.Total(), "the step");
    ExpectPart(merged.hidden_comm(), costs.HiddenComm(plan), "hidden");
    EXPECT_TRUE(plan.pp > 1 || merged.hidden_comm() == 0) << merged.hidden_comm();
    plans_that_hide += merged.hidden_comm() > 0 ? 1 : 0;
    for (const BreakdownPart& part : kBreakdownParts) {
      const bool after = part.seconds == &Breakdown::bubble || part.seconds == &Breakdown::dp_comm ||
                         part.seconds == &Breakdown::optimizer || part.seconds == &Breakdown::overhead;
      if (after && plan.pp > 1 && plan.dp > 1) continue;
      ExpectPart(measured.*part.seconds, predicted.*part.seconds, std::string(part.name));
    }
  }
  EXPECT_GE(plans_that_hide, 3);
}

// Returns seconds of any op, of which those of communication are `communication` times those of NamedOpTimes.
class HiddenTimes final : public OpTimeModel {
 public:
  explicit HiddenTimes(double communication) : communication_(communication) {}
  double Seconds(const OpDesc& op, const ParallelPlan& plan) const override {
    return NamedOpTimes().Seconds(op, plan) * (op.group == CommGroup::kNone ? 1 : communication_);
  }

 private:
  const double communication_;
};

// Collectives run beside computes as predicted, on a device where they can: entirely, in part and hardly.
// Predictions also count those of units that run while the rank waits for the sums of chunks.
TEST(Breakdown, CollectivesOfThePacedDeviceAreHiddenAsPredicted) {
  const ModelSpec model = SmallGpt(4, 16, 4, 61);
  for (const std::string text :
       {"tp=2,mbs=1,tp_overlap=4", "tp=2,mbs=1,sp=1,tp_overlap=2", "tp=2,mbs=1,recompute=full,tp_overlap=2",
        "tp=2,pp=2,mbs=1,tp_overlap=2", "dp=2,mbs=1,grad_overlap=1", "dp=2,mbs=1,zero=1,grad_overlap=1",
        "dp=2,mbs=1,zero=1,param_overlap=1", "dp=2,mbs=1,zero=2,grad_overlap=1,param_overlap=1",
        "dp=2,mbs=1,zero=3,grad_overlap=1", "dp=2,mbs=1,zero=3,param_overlap=1",
        "dp=2,mbs=1,zero=3,grad_overlap=1,param_overlap=1",
        "pp=2,dp=2,mbs=1,zero=1,grad_overlap=1,param_overlap=1",
        "tp=2,dp=2,mbs=1,zero=3,grad_overlap=1,param_overlap=1,tp_overlap=2"}) {
    for (const double communication : {0.05, 1.0, 20.0}) {
      SCOPED_TRACE(testing::Message() << text << " communication " << communication);
      const ParallelPlan plan = *ParsePlanText(text);
      const Workload workload = Fp32(8 * plan.dp, 8);
      const auto op_times = std::make_shared<HiddenTimes>(communication);
      TrainConfig c = RecordedConfig(model, workload, plan);
      c.op_times.clear();
      for (const OpTime& time : PlanOpTimes({model, workload, plan}, *op_times))
        c.op_times.emplace(time.op, time.seconds);
      const auto run = MergeRanks(RunRecorded(EngineDevice::kPaced, c).ranks);
      ASSERT_TRUE(run.ok()) << run.status();
      ClusterSpec cluster = LocalRanks(RankCount(plan));
      cluster.groups.front().device.kind = DeviceKind::kCuda;
      CostModel costs({model, workload, cluster}, op_times);
      const double predicted_s = costs.HiddenComm(plan);
      EXPECT_GT(predicted_s, 0);
      const double measured_s = MeasurementOf(*run)->breakdown_s().hidden_comm();
      EXPECT_LE(measured_s, predicted_s * (1 + 1e-9));
      EXPECT_GE(measured_s, predicted_s * (plan.tp > 1 && plan.dp > 1 ? 0.9 : 1 - 1e-9));
    }
  }
}

// A world whose collectives ran for the whole of each recorded step.
class TimedWorld final : public CommWorld, public CollectiveTimes {
 public:
  TimedWorld(std::unique_ptr<CommWorld> world, std::vector<std::string>& calls)
      : world_(std::move(world)), calls_(calls) {}

  std::unique_ptr<Communicator> CreateGroup(CommGroup name, const std::vector<std::int64_t>& ranks,
                                            const Tensor& staging) override {
    return world_->CreateGroup(name, ranks, staging);
  }
  CollectiveTimes* collective_times() override { return this; }

  void Begin(Stream&) override { calls_.emplace_back("begin"); }
  void End() override { calls_.emplace_back("end"); }
  std::vector<TimeSpan> Spans(double origin_s, double late_s) override {
    calls_.emplace_back("spans");
    EXPECT_GT(origin_s, 0);
    EXPECT_GE(late_s, 0);
    return {{-1, 1e6}};
  }

 private:
  const std::unique_ptr<CommWorld> world_;
  std::vector<std::string>& calls_;
};

// Where a world times its collectives, they are hidden while the rank computes: here, always.
TEST(Breakdown, CollectivesThatAreTimedAreHidden) {
  for (const bool overlaps : {true, false}) {
    TrainConfig c = SmallConfig();
    c.plan = *ParsePlanText(overlaps ? "dp=2,mbs=1,grad_overlap=1" : "dp=2,mbs=1,grad_overlap=0");
    c.lr.steps = 4;
    c.untimed_steps = 2;
    c.record_breakdown = true;
    auto rendezvous = CreateLocalRendezvous(2);
    RunThreads(2, [&](int rank) {
      Backend backend =
          CreateTrainBackend(EngineDevice::kCpu, *rendezvous[static_cast<std::size_t>(rank)], c);
      std::vector<std::string> calls;
      backend.comm = std::make_unique<TimedWorld>(std::move(backend.comm), calls);
      const v1::TrainResult result = Train(c, rank, 2, backend, {});
      const Breakdown parts = FromProto(result.breakdown_s());
      if (overlaps) {
        EXPECT_EQ(calls, (std::vector<std::string>{"begin", "end", "spans"})) << "of one step of four";
        EXPECT_GE(result.breakdown_s().hidden_comm(), parts.compute * (1 - 1e-9));
      } else {
        EXPECT_EQ(calls, std::vector<std::string>()) << "the rank waits for each";
        EXPECT_EQ(result.breakdown_s().hidden_comm(), 0);
      }
    });
  }
}

TEST(Breakdown, OnCpusAddsUpToTheRecordedStep) {
  for (const ParallelPlan& plan : {ParallelPlan{}, ParallelPlan{{.tp = 2}, {.recompute = Recompute::kFull}},
                                   ParallelPlan{{.pp = 2, .dp = 2}}, ParallelPlan{{.tp = 2, .pp = 2}}}) {
    SCOPED_TRACE(::testing::Message() << "tp=" << plan.tp << " pp=" << plan.pp << " dp=" << plan.dp);
    TrainConfig c = SmallConfig();
    c.plan = plan;
    c.lr.steps = 4;
    c.untimed_steps = 2;
    c.record_breakdown = true;
    const RecordedRun run = RunRecorded(EngineDevice::kCpu, c);
    ASSERT_EQ(run.progress_s.size(), 4u);
    for (const v1::TrainResult& result : run.ranks) {
      ASSERT_TRUE(result.has_breakdown_s());
      EXPECT_EQ(result.step_time_s_size(), 2);
      const Breakdown parts = FromProto(result.breakdown_s());
      EXPECT_NEAR(parts.Total(), run.progress_s[1], 1e-9) << "the second step is the last untimed one";
      for (const BreakdownPart& part : kBreakdownParts) EXPECT_GE(parts.*part.seconds, 0) << part.name;
      EXPECT_GE(result.breakdown_s().hidden_comm(), 0);
      EXPECT_GT(parts.compute, 0);
      EXPECT_GT(parts.optimizer, 0);
      EXPECT_EQ(parts.recompute > 0, plan.recompute == Recompute::kFull);
      EXPECT_EQ(parts.tp_comm > 0, plan.tp > 1);
      EXPECT_EQ(parts.dp_comm > 0, plan.dp > 1 || plan.pp > 1) << "pp > 1: the tied embedding";
      EXPECT_TRUE(plan.pp > 1 || parts.pp_comm == 0) << parts.pp_comm;
      EXPECT_TRUE(RankCount(plan) > 1 || parts.bubble == 0) << parts.bubble;
    }
  }
}

// Returns the rows of a rank's timeline. Each is an action of its program, in any order.
std::vector<TimelineRow> RowsOf(const v1::TrainResult& result) {
  std::vector<TimelineRow> rows;
  for (const v1::TimelineRow& row : result.timeline().rows()) rows.push_back(*FromProto(row));
  return rows;
}

TEST(Timeline, OfThePacedDeviceIsThePredictedTrace) {
  const ModelSpec model = SmallGpt(4, 16, 4, 61);
  const Workload workload = Fp32(8, 8);
  for (const ParallelPlan& plan : RecordedPlans()) {
    SCOPED_TRACE(::testing::Message() << "tp=" << plan.tp << " pp=" << plan.pp << " dp=" << plan.dp);
    const RecordedRun run = RunRecorded(EngineDevice::kPaced, RecordedConfig(model, workload, plan));
    CostModel costs({model, workload, LocalRanks(RankCount(plan))}, std::make_shared<NamedOpTimes>());
    const TracedStep traced = costs.Trace(plan);
    const Program program = Lower({model, workload, plan});
    const RankMesh mesh(plan);
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      SCOPED_TRACE(rank);
      const auto number = static_cast<std::int32_t>(rank);
      const bool leads =
          mesh.Coordinate(number, Axis::kTensor) == 0 && mesh.Coordinate(number, Axis::kData) == 0;
      ASSERT_EQ(run.ranks[rank].has_timeline(), leads);
      if (!leads) continue;
      ASSERT_TRUE(CheckTimeline(run.ranks[rank].timeline()).ok());
      const std::vector<TimelineRow> rows = RowsOf(run.ranks[rank]);
      ASSERT_EQ(rows.size(), program.ranks[rank].size()) << "a row for each action";
      std::vector<TraceRow> predicted;
      for (const TraceRow& row : traced.rows) {
        if (row.rank == number) predicted.push_back(row);
      }
      ASSERT_EQ(predicted.size(), rows.size());
      for (const TraceRow& row : predicted) {
        const auto i = static_cast<std::size_t>(row.action);
        const Action& action = program.ranks[rank][i];
        EXPECT_EQ(rows[i].pipeline, mesh.Coordinate(number, Axis::kPipeline));
        EXPECT_EQ(std::tuple(rows[i].action.kind, rows[i].action.lane, rows[i].action.stage,
                             rows[i].action.microbatch),
                  std::tuple(action.kind, action.lane, action.stage, action.microbatch));
        if (!IsStageCompute(action.kind)) continue;  // the predictor gives sums of squares to the optimizer
        EXPECT_NEAR(rows[i].start_s, row.start_s, 1e-9) << ToString(action);
        EXPECT_NEAR(rows[i].end_s, row.end_s, 1e-9) << ToString(action);
      }
    }
  }
}

TEST(Timeline, OnCpusLiesWithinTheRecordedStep) {
  for (const ParallelPlan& plan : {ParallelPlan{}, ParallelPlan{{.pp = 2, .dp = 2}}}) {
    TrainConfig c = SmallConfig();
    c.plan = plan;
    c.lr.steps = 4;
    c.untimed_steps = 2;
    const RecordedRun without = RunRecorded(EngineDevice::kCpu, c);
    for (const v1::TrainResult& result : without.ranks) EXPECT_FALSE(result.has_timeline());
    c.record_breakdown = true;
    const RecordedRun run = RunRecorded(EngineDevice::kCpu, c);
    const auto merged = MergeRanks(run.ranks);
    ASSERT_TRUE(merged.ok()) << merged.status();
    ASSERT_TRUE(CheckTimeline(merged->timeline()).ok()) << CheckTimeline(merged->timeline());
    std::vector<double> busy_until(static_cast<std::size_t>(plan.pp));
    std::vector<int> forwards(static_cast<std::size_t>(plan.pp));
    double end_s = 0;
    for (const TimelineRow& row : RowsOf(*merged)) {
      const auto rank = static_cast<std::size_t>(row.pipeline);
      end_s = std::max(end_s, row.end_s);
      forwards[rank] += row.action.kind == ActionKind::kForward ? 1 : 0;
      if (row.action.lane != Lane::kCompute) continue;
      EXPECT_GE(row.start_s, busy_until[rank] - 1e-9) << "a rank computes one thing at a time";
      busy_until[rank] = row.end_s;
    }
    EXPECT_GT(end_s, 0);
    // The clock of each rank counts from when it leaves the barrier at the start.
    EXPECT_TRUE(run.ranks.size() > 1 || end_s <= run.progress_s[1]) << end_s;
    for (const int count : forwards) EXPECT_EQ(count, 8 / plan.dp) << "one of each microbatch";
  }
}

// The observer is gone after the recorded step, and losses do not depend on it.
TEST(Breakdown, RecordingChangesNoLoss) {
  TrainConfig c = SmallConfig();
  c.plan = {{.tp = 2, .pp = 2}};
  c.lr.steps = 4;
  c.untimed_steps = 2;
  const RecordedRun without = RunRecorded(EngineDevice::kCpu, c);
  c.record_breakdown = true;
  const RecordedRun with = RunRecorded(EngineDevice::kCpu, c);
  EXPECT_FALSE(without.ranks[0].has_breakdown_s());
  EXPECT_TRUE(std::ranges::equal(without.ranks[0].losses(), with.ranks[0].losses()));
  EXPECT_TRUE(std::ranges::equal(without.ranks[0].grad_norms(), with.ranks[0].grad_norms()));
}

// A send that the sender notices late ended when its receiver had it; the receive began when both sides were
// there; a reduction begins with its last rank.
TEST(Breakdown, PeersTellWhenCommunicationRan) {
  TrainConfig c = SmallConfig();
  c.plan = {{.pp = 2, .dp = 2}};
  const Program program = Lower(c);
  const auto at = [&](int rank, ActionKind kind, std::int32_t microbatch) {
    const RankProgram& actions = program.ranks[static_cast<std::size_t>(rank)];
    return static_cast<std::size_t>(
        std::ranges::find_if(actions,
                             [&](const Action& a) { return a.kind == kind && a.microbatch == microbatch; }) -
        actions.begin());
  };
  const RankMesh mesh(c.plan);
  std::vector<std::vector<ActionTime>> times(4);
  auto rendezvous = CreateLocalRendezvous(4);
  RunThreads(4, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    Backend backend = CreateTrainBackend(EngineDevice::kCpu, *rendezvous[r], c);
    RankTrainer trainer(c, rank, 4, backend);
    // The second rank of the pipeline is 10 s later in everything, each data coordinate another second.
    const double late_s = 10.0 * static_cast<double>(mesh.Coordinate(rank, Axis::kPipeline)) +
                          static_cast<double>(mesh.Coordinate(rank, Axis::kData));
    for (std::size_t i = 0; i < trainer.program().size(); ++i) {
      const double start_s = 100.0 * static_cast<double>(trainer.program()[i].microbatch + 1) + late_s;
      const double seconds = IsSend(trainer.program()[i].kind) ? 50 : 20;
      times[r].push_back({start_s, start_s + seconds});
    }
    for (std::size_t i = 0; i < times[r].size(); ++i) {
      if (trainer.program()[i].lane != Lane::kReduce) continue;
      times[r][i].start_s += 1000 + 100.0 * static_cast<double>(i);
      times[r][i].end_s += 1000 + 100.0 * static_cast<double>(i);
    }
    // Each rank began the step 3 s after the one before it, so its own clock shows less.
    const double began_s = 3.0 * rank;
    for (ActionTime& time : times[r]) time.start_s -= began_s, time.end_s -= began_s;
    EXPECT_EQ(trainer.MeetPeers(1000 + began_s, times[r]), began_s);
    for (ActionTime& time : times[r]) time.start_s += began_s, time.end_s += began_s;
  });
  for (int rank = 0; rank < 4; ++rank) {
    const auto data = static_cast<double>(mesh.Coordinate(rank, Axis::kData));
    const bool first = mesh.Coordinate(rank, Axis::kPipeline) == 0;
    const auto& own = times[static_cast<std::size_t>(rank)];
    for (std::int32_t microbatch = 0; microbatch < 4; ++microbatch) {
      const double base_s = 100.0 * (microbatch + 1) + data;
      const ActionTime& activation =
          own[at(rank, first ? ActionKind::kSendActivation : ActionKind::kRecvActivation, microbatch)];
      EXPECT_EQ(activation.start_s, base_s + 10) << "when the receiver was there";
      EXPECT_EQ(activation.end_s, base_s + 30) << "when the receiver had it";
      const ActionTime& gradient =
          own[at(rank, first ? ActionKind::kRecvGradient : ActionKind::kSendGradient, microbatch)];
      EXPECT_EQ(gradient.start_s, base_s + 10);
      EXPECT_EQ(gradient.end_s, base_s + 20);
      const double forward_s = own[at(rank, ActionKind::kForward, microbatch)].start_s;
      EXPECT_EQ(forward_s, base_s + (first ? 0 : 10)) << "computes keep their times";
    }
    const std::size_t reduce = at(rank, ActionKind::kReduceGradients, -1);
    const double reduce_s = 1000 + 100.0 * static_cast<double>(reduce) + (first ? 0 : 10);
    EXPECT_EQ(own[reduce].start_s, reduce_s + 1) << "the later of both replicas";
    EXPECT_EQ(own[reduce].end_s, reduce_s + 20 + data);
  }
}

std::string RefusalToRecord(const TrainConfig& c) {
  auto rendezvous = CreateLocalRendezvous(1);
  try {
    Backend backend = CreateTrainBackend(EngineDevice::kCpu, *rendezvous[0], c);
    Train(c, 0, 1, backend, {});
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(Breakdown, NeedsAnUntimedStepAndAllRanks) {
  TrainConfig c = SmallConfig();
  c.lr.steps = 2;
  c.record_breakdown = true;
  EXPECT_EQ(RefusalToRecord(c),
            "record_breakdown needs a step that is not timed; set warmup_steps_untimed to at least 1");
  c.untimed_steps = 1;
  EXPECT_EQ(RefusalToRecord(c), "");
  c.slice = SliceCoordinates{};
  EXPECT_EQ(RefusalToRecord(c),
            "record_breakdown needs all ranks of the plan, and a slice is one; leave it out");
}

}  // namespace
}  // namespace autocfg::trainer
