// Tests the engine as it runs in production: one process per rank, started by the worker's launcher. The full
// matrix of layouts runs as threads (same_step_test.cc). A few layouts here show that processes make the same
// steps and that errors are reported correctly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "search/cost/plan_op_times.h"
#include "tests/multirank/process_jobs.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/checkpoint/safetensors.h"

namespace autocfg::trainer {
namespace {

using ::testing::HasSubstr;

class Processes : public ::testing::Test {
 protected:
  const TempDir directory_;
};

TEST_F(Processes, MatchStepsOfOneRankAndSaveItsWeights) {
  TrainConfig c = test::SmallConfig();
  const test::TrainedRun one = test::RunAsThreads(c);
  c.save_path = directory_.File("saved.safetensors");
  for (const ParallelPlan& plan :
       {ParallelPlan{}, ParallelPlan{{.tp = 2}}, ParallelPlan{{.tp = 2, .pp = 2, .dp = 2}},
        ParallelPlan{{.pp = 4, .dp = 2}, {.recompute = Recompute::kFull}, {.schedule = Schedule::kGPipe}},
        ParallelPlan{{.tp = 2, .pp = 2}, {}, {.schedule = Schedule::kZeroBubbleH1}},
        ParallelPlan{{.tp = 2, .pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}}}) {
    SCOPED_TRACE(::testing::Message() << "tp=" << plan.tp << " pp=" << plan.pp << " dp=" << plan.dp);
    c.plan = plan;
    std::vector<std::int64_t> progress;
    worker::LaunchHooks hooks;
    hooks.progress = [&](int rank, const v1::Progress& p) {
      EXPECT_EQ(rank, 0);
      progress.push_back(p.step());
    };
    const worker::JobResult job = RunProcesses(c, "cpu", hooks);
    ASSERT_EQ(job.outcome, v1::OUTCOME_MEASURED) << job.message;
    EXPECT_EQ(progress, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
    for (const worker::RankEnd& rank : job.ranks) {
      ASSERT_TRUE(rank.finished);
      const v1::TrainResult& result = rank.last.train_result();
      ASSERT_EQ(result.losses_size(), 10);
      EXPECT_EQ(result.step_time_s_size(), 10);
      EXPECT_EQ(result.peak_memory_bytes(), result.planned_memory_bytes().total());
      EXPECT_GT(result.device_overhead_bytes(), 0);
      for (int s = 0; s < 10; ++s) {
        EXPECT_NEAR(result.losses(s), one.steps[s].loss, 1e-9 * one.steps[s].loss);
        EXPECT_NEAR(result.grad_norms(s), one.steps[s].grad_norm, 1e-9 * one.steps[s].grad_norm);
      }
    }
    const SafetensorsFile file(c.save_path);
    for (const auto& [name, want] : one.weights) {
      if (name.ends_with("c_attn.bias")) continue;  // key part: only rounding error; see same_step_test.cc
      std::vector<double> got(want.size());
      file.Read(name, 0, got);
      double largest = 0, worst = 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        largest = std::max(largest, std::abs(want[i]));
        worst = std::max(worst, std::abs(want[i] - got[i]));
      }
      EXPECT_LE(worst, 1e-9 * largest) << name;
    }
  }
}

TEST_F(Processes, CountBytesOnTheDryDevice) {
  TrainConfig c = test::SmallConfig();
  c.plan = {{.tp = 2, .pp = 2}};
  const worker::JobResult job = RunProcesses(c, "dry");
  ASSERT_EQ(job.outcome, v1::OUTCOME_MEASURED) << job.message;
  for (const worker::RankEnd& rank : job.ranks) {
    EXPECT_GT(rank.last.train_result().planned_memory_bytes().total(), 0);
    EXPECT_EQ(rank.last.train_result().losses_size(), 0);
  }
}

// Many more ranks than cores, with modelled step times: only attention takes time, 1 s per layer in a forward
// and 2 s in a backward.
TEST_F(Processes, TakeModelledTimeOnThePacedDevice) {
  TrainConfig c = test::SmallConfig();
  c.plan = {{.tp = 2, .pp = 4, .dp = 2}, {}, {.schedule = Schedule::kGPipe}};
  c.lr.steps = 2;
  c.trace = true;
  class EqualLayers final : public OpTimeModel {
   public:
    double Seconds(const OpDesc& op, const ParallelPlan&) const override {
      return op.kind == OpKind::kAttentionForward ? 1 : op.kind == OpKind::kAttentionBackward ? 2 : 0;
    }
  };
  for (const OpTime& time : PlanOpTimes(c, EqualLayers())) c.op_times.emplace(time.op, time.seconds);
  const worker::JobResult job = RunProcesses(c, "paced");
  ASSERT_EQ(job.outcome, v1::OUTCOME_MEASURED) << job.message;
  const double microbatches = 4, layers = 1;  // per rank
  for (const worker::RankEnd& rank : job.ranks) {
    const v1::TrainResult& result = rank.last.train_result();
    ASSERT_EQ(result.step_time_s_size(), 2);
    for (const double step_s : result.step_time_s())
      EXPECT_DOUBLE_EQ(step_s, 3 * layers * (microbatches + 4 - 1));
    EXPECT_GT(result.trace_size(), 2 * microbatches);
    EXPECT_EQ(result.losses_size(), 0);
  }
  c.op_times.erase(c.op_times.begin());
  const worker::JobResult refused = RunProcesses(c, "paced");
  EXPECT_TRUE(refused.bad_input());
  EXPECT_THAT(refused.message, HasSubstr("op_times: no time for "));
}

TEST_F(Processes, RunCopiesOfASlice) {
  TrainConfig c = test::SmallConfig();
  c.plan = {{.tp = 4, .pp = 4, .dp = 8}, {.micro_batch = 1}};
  c.lr.steps = 3;
  c.slice = SliceCoordinates{.tensor = 3, .pipeline = 2};
  v1::RunSpec job;
  job.set_device("cpu");
  *job.mutable_train() = SpecOf(c);
  const worker::JobResult done = RunProcesses(job, 2);
  ASSERT_EQ(done.outcome, v1::OUTCOME_MEASURED) << done.message;
  for (const worker::RankEnd& rank : done.ranks) {
    const v1::TrainResult& result = rank.last.train_result();
    EXPECT_EQ(result.slice().tensor(), 3);
    EXPECT_EQ(result.slice().pipeline(), 2);
    EXPECT_EQ(result.losses_size(), 0);
    ASSERT_EQ(result.step_time_s_size(), 3);
    EXPECT_GT(result.step_time_s(0), 0);
  }
  job.mutable_train()->mutable_slice()->set_pipeline(4);
  const worker::JobResult refused = RunProcesses(job, 2);
  EXPECT_TRUE(refused.bad_input());
  EXPECT_THAT(refused.message, HasSubstr("slice: pipeline 4 is outside 0 to 3 of the plan"));
}

TEST_F(Processes, ReportInvalidInput) {
  TrainConfig c = test::SmallConfig();
  c.plan = {{.tp = 2}};
  c.data_path = directory_.File("no_such_data.u16");
  const worker::JobResult job = RunProcesses(c);
  EXPECT_TRUE(job.bad_input());
  EXPECT_THAT(job.message, HasSubstr("no_such_data.u16: No such file"));
  const auto on_gpu = RunProcesses(test::SmallConfig(), "cuda");
  EXPECT_EQ(on_gpu.error.code(), "UNIMPLEMENTED") << on_gpu.message;
}

// The error occurs in the middle of a step, while the other rank waits for this one.
TEST_F(Processes, EndIfOneRankReadsAnInvalidToken) {
  const std::string data = directory_.File("bad_token.u16");
  std::vector<std::uint16_t> tokens(8 * 16 + 1, 1);
  tokens[8 * 8 + 4] = 999;  // sequence 8: the first of step 1
  std::ofstream(data, std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size());
  TrainConfig c = test::SmallConfig();
  c.plan = {{.tp = 1, .pp = 2, .dp = 2}};
  c.data_path = data;
  const worker::JobResult job = RunProcesses(c);
  EXPECT_TRUE(job.bad_input());
  EXPECT_THAT(job.message, HasSubstr("token 999 at position 68 of data file"));
  EXPECT_LT(job.wall_s, 60);
}

TEST_F(Processes, ReportByHowMuchAPlanDoesNotFit) {
  TrainConfig c = test::SmallConfig();
  c.plan = {{.dp = 2}};
  c.memory_capacity_bytes = 1000;
  const worker::JobResult job = RunProcesses(c);
  EXPECT_EQ(job.outcome, v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(job.error.region(), "communication") << "two groups of 1 MiB of staging";
  EXPECT_GT(job.error.over_bytes(), 2 << 20);
}

TEST_F(Processes, Calibrate) {
  v1::RunSpec job;
  job.set_device("cpu");
  OpDesc matmul{.kind = OpKind::kMatmul, .dims = {32, 48, 64, 0}};
  OpDesc reduce{
      .kind = OpKind::kAllReduceSum, .group = CommGroup::kTensor, .group_size = 2, .dims = {4096, 0, 0, 0}};
  for (const OpDesc& op : {matmul, reduce}) *job.mutable_calibrate()->add_ops() = ToProto(op);
  const worker::JobResult result = RunProcesses(job, 2);
  ASSERT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
  for (const worker::RankEnd& rank : result.ranks) {
    ASSERT_EQ(rank.last.calibrate_result().ops_size(), 2);
    for (const v1::OpTime& time : rank.last.calibrate_result().ops()) EXPECT_GT(time.seconds(), 0);
    EXPECT_EQ(*FromProto(rank.last.calibrate_result().ops(1).op()), reduce);
  }
}

}  // namespace
}  // namespace autocfg::trainer
