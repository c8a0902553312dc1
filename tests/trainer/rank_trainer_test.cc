// Tests the engine on one rank and a few: that it learns, rejects invalid runs, and relies only on the
// progress that communicators guarantee.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/trainer/thread_ranks.h"
#include "trainer/layout/errors.h"
#include "trainer/run/train_loop.h"

namespace autocfg::trainer {
namespace {

using test::RunAsThreads;
using test::SmallConfig;
using test::TrainedRun;
using test::World;

void ExpectSameRun(const TrainedRun& a, const TrainedRun& b, double tolerance) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_NEAR(a.steps[i].loss, b.steps[i].loss, tolerance * a.steps[i].loss) << "step " << i;
    EXPECT_NEAR(a.steps[i].grad_norm, b.steps[i].grad_norm, tolerance * a.steps[i].grad_norm) << "step " << i;
  }
}

TEST(RankTrainer, StartsAtTheLossOfRandomGuessingAndLearns) {
  TrainConfig c = SmallConfig();
  c.lr.steps = 120;
  c.lr.lr = 2e-2;
  c.clip_norm = 1.0;
  const TrainedRun outcome = RunAsThreads(c);
  EXPECT_NEAR(outcome.steps.front().loss, std::log(61.0), 0.05);
  EXPECT_LT(outcome.steps.back().loss, 0.5 * outcome.steps.front().loss);
  EXPECT_TRUE(outcome.differences.empty());
}

// A delayed communicator starts an operation only when it is waited for or tested.
TEST(RankTrainer, RunsWithDelayedOperations) {
  TrainConfig c = SmallConfig();
  c.lr.steps = 2;
  const TrainedRun alone = RunAsThreads(c);
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1}) {
    for (const auto& [tp, pp, dp] : {std::tuple{2, 2, 1}, {1, 4, 1}, {1, 2, 2}, {2, 2, 2}, {4, 1, 1}}) {
      SCOPED_TRACE(::testing::Message() << "tp=" << tp << " pp=" << pp << " dp=" << dp);
      c.plan = {{.tp = tp, .pp = pp, .dp = dp}, {}, {.schedule = schedule}};
      ExpectSameRun(alone, RunAsThreads(c, World::kDelayedUcx), 1e-9);
    }
  }
  c.plan = {{.tp = 2, .pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}};
  ExpectSameRun(alone, RunAsThreads(c, World::kDelayedUcx), 1e-9);
}

TEST(RankTrainer, ReportsByHowMuchAPlanDoesNotFit) {
  TrainConfig c = SmallConfig();
  Backend backend = CreateDryBackend(0, 1);
  const std::int64_t needed = RankTrainer(c, 0, 1, backend).arena().TotalBytes();
  c.memory_capacity_bytes = needed;
  EXPECT_EQ(RankTrainer(c, 0, 1, backend).arena().TotalBytes(), needed);
  c.memory_capacity_bytes = needed - 100;
  try {
    RankTrainer trainer(c, 0, 1, backend);
    FAIL() << "it was accepted";
  } catch (const DoesNotFit& e) {
    EXPECT_EQ(e.over_bytes, 100);
    EXPECT_EQ(e.region, "optimizer");
    EXPECT_NE(std::string(e.what()).find("100 more than"), std::string::npos) << e.what();
  }
}

TEST(RankTrainer, RejectsInvalidConfigs) {
  Backend backend = CreateDryBackend(0, 1);
  TrainConfig c = SmallConfig();
  EXPECT_THROW(RankTrainer(c, 0, 2, backend), BadInput) << "a plan for one rank on two";
  c.plan.micro_batch = 3;
  EXPECT_THROW(RankTrainer(c, 0, 1, backend), BadInput) << "an illegal plan";
  c = SmallConfig();
  c.program_fingerprint = 1;
  EXPECT_THROW(RankTrainer(c, 0, 1, backend), BadInput) << "another program";
  c.program_fingerprint = Fingerprint(Lower(c));
  EXPECT_NO_THROW(RankTrainer(c, 0, 1, backend));
  c = SmallConfig();
  c.model.position = Position::kRope;
  c.model.rope_scaling = RopeScaling::kLlama3;
  EXPECT_THROW(RankTrainer(c, 0, 1, backend), NotSupported) << "a scaling without its parameters";
  c.model.rope_scaling_parameters = Llama3Scaling(8);
  EXPECT_NO_THROW(RankTrainer(c, 0, 1, backend));
  c = SmallConfig();
  c.plan.split = SplitMode::kAuto;
  EXPECT_THROW(RankTrainer(c, 0, 1, backend), BadInput) << "a plan that is not complete";
  c = SmallConfig();
  c.save_path = "x.safetensors";
  EXPECT_THROW(RankTrainer(c, 0, 1, backend), BadInput) << "nothing to save on the dry device";
}

// A device that computes nothing accepts every precision, so that memory and ops can be inspected.
TEST(RankTrainer, KeepsMasterWeightsIfThePrecisionHasThem) {
  TrainConfig c = SmallConfig();
  c.workload.precision = *ParsePrecision("bf16");
  c.plan = {{.tp = 2, .pp = 2}, {}, {.virtual_stages = 2, .schedule = Schedule::kInterleaved}};
  Backend backend = CreateDryBackend(1, 4);
  RankTrainer trainer(c, 1, 4, backend);
  const Arena& arena = trainer.arena();
  std::int64_t elements = 0;
  for (const ParameterTensors& p : trainer.layout().parameter_tensors()) {
    EXPECT_EQ(p.value.dtype, DType::kBF16);
    EXPECT_EQ(p.grad.dtype, DType::kF32);
    EXPECT_EQ(p.master.dtype, DType::kF32);
    EXPECT_EQ(p.master.Elements(), p.value.Elements());
    elements += p.value.Elements();
  }
  EXPECT_EQ(arena.ReservedBytes(Region::kOptimizer), 3 * arena.ReservedBytes(Region::kGradients));
  EXPECT_GE(arena.ReservedBytes(Region::kGradients), 4 * elements);
  EXPECT_EQ(trainer.layout().slots(0)[0].layers[0].attention.qkv.dtype, DType::kBF16);
  EXPECT_EQ(trainer.layout().slots(0)[0].layers[0].attention.lse.dtype, DType::kF32);
  trainer.Step();
  const auto& ops = backend.log->ops();
  EXPECT_EQ(
      std::count_if(ops.begin(), ops.end(),
                    [](const OpDesc& op) { return op.kind == OpKind::kAdamW && op.master == DType::kF32; }),
      1);
  EXPECT_EQ(ops.back().dims[0], elements);
  EXPECT_EQ(trainer.PeakBytes(), arena.TotalBytes());
}

TEST(RankTrainer, RejectsUnsupportedPrecisionOnTheCpu) {
  TrainConfig c = SmallConfig();
  c.workload.precision = *ParsePrecision("bf16");
  auto rendezvous = CreateLocalRendezvous(1);
  Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
  try {
    RankTrainer trainer(c, 0, 1, backend);
    FAIL() << "it was accepted";
  } catch (const NotSupported& e) {
    EXPECT_STREQ(e.what(), "precision bf16 is not supported yet on this device; use fp32 or fp64");
  }
}

TEST(DeviceOf, NamesUnknownDevice) {
  v1::RunSpec spec;
  spec.set_device("dry");
  EXPECT_EQ(DeviceOf(spec), EngineDevice::kDry);
  spec.set_device("tpu");
  try {
    DeviceOf(spec);
    FAIL() << "it was accepted";
  } catch (const NotSupported& e) {
    EXPECT_STREQ(e.what(), "device \"tpu\" is not supported yet; use cpu, cuda, dry or paced");
  }
}

// The kernels name their devices themselves: they do not use search/plan.
TEST(CreateBackend, DevicesHaveTheNamesOfTheEngine) {
  auto rendezvous = CreateLocalRendezvous(1);
  TrainConfig c = SmallConfig();
  for (const EngineDevice device : {EngineDevice::kCpu, EngineDevice::kDry})
    EXPECT_EQ(CreateTrainBackend(device, *rendezvous[0], c).device->Name(), Name(device));
  c.op_times[OpDesc{}] = 1;
  EXPECT_EQ(CreateTrainBackend(EngineDevice::kPaced, *rendezvous[0], c).device->Name(),
            Name(EngineDevice::kPaced));
}

TEST(CreateBackend, RejectsCalibrationOnThePacedDevice) {
  auto rendezvous = CreateLocalRendezvous(1);
  EXPECT_THROW(CreateBackend(EngineDevice::kPaced, *rendezvous[0]), NotSupported);
}

TEST(Train, ReportsEveryStepAndTheMemory) {
  TrainConfig c = SmallConfig();
  c.lr.steps = 3;
  c.untimed_steps = 1;
  auto rendezvous = CreateLocalRendezvous(1);
  Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
  std::vector<std::int64_t> progress;
  const v1::TrainResult result =
      Train(c, 0, 1, backend, [&](const v1::Progress& p) { progress.push_back(p.step()); });
  EXPECT_EQ(progress, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(result.losses_size(), 3);
  EXPECT_EQ(result.grad_norms_size(), 3);
  ASSERT_EQ(result.step_time_s_size(), 2);
  EXPECT_GT(result.step_time_s(0), 0);
  EXPECT_GT(result.planned_memory_bytes().total(), 0);
  EXPECT_EQ(result.peak_memory_bytes(), result.planned_memory_bytes().total());
}

// The reported time of a step is the one that the run's summary uses: the slowest rank's.
TEST(Train, ReportsTheTimeOfTheSlowestRank) {
  class WrittenClock final : public StepClock {
   public:
    explicit WrittenClock(std::vector<double> seconds) : seconds_(std::move(seconds)) {}
    void Restart() override { ++step_; }
    double Seconds() const override { return seconds_.at(step_ - 1); }
    double OriginSeconds() const override { return 0; }
    bool IsVirtual() const override { return false; }
    std::optional<TimeSpan> Transfer(Lane, std::size_t) const override { return std::nullopt; }
    std::vector<TimeSpan> Collectives() const override { return {}; }

   private:
    const std::vector<double> seconds_;
    std::size_t step_ = 0;
  };
  const std::vector<double> times[] = {{1, 5, 1}, {3, 2, 4}};
  for (const ParallelPlan& plan :
       {ParallelPlan{{.tp = 2}}, ParallelPlan{{.pp = 2}}, ParallelPlan{{.dp = 2}}}) {
    TrainConfig c = SmallConfig();
    c.lr.steps = 3;
    c.plan = plan;
    auto rendezvous = CreateLocalRendezvous(2);
    std::vector<double> reported;
    std::vector<double> losses;
    std::vector<v1::TrainResult> results(2);
    test::RunThreads(2, [&](int rank) {
      Backend backend = CreateBackend(EngineDevice::kCpu, *rendezvous[static_cast<std::size_t>(rank)]);
      backend.clock = std::make_unique<WrittenClock>(times[rank]);
      results[static_cast<std::size_t>(rank)] = Train(c, rank, 2, backend, [&](const v1::Progress& p) {
        reported.push_back(p.step_time_s());
        losses.push_back(p.loss());
      });
    });
    EXPECT_EQ(reported, (std::vector<double>{3, 5, 4}));
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const v1::TrainResult& result = results[rank];
      EXPECT_EQ(std::vector<double>(result.step_time_s().begin(), result.step_time_s().end()), times[rank]);
      EXPECT_EQ(std::vector<double>(result.losses().begin(), result.losses().end()), losses);
    }
  }
}

TEST(Train, ReportsNoLossesOnADeviceThatComputesNothing) {
  TrainConfig c = SmallConfig();
  Backend backend = CreateDryBackend(0, 1);
  const v1::TrainResult result = Train(c, 0, 1, backend, {});
  EXPECT_EQ(result.losses_size() + result.grad_norms_size() + result.step_time_s_size(), 0);
  EXPECT_GT(result.planned_memory_bytes().total(), 0);
}

}  // namespace
}  // namespace autocfg::trainer
