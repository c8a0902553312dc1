// Training on the GPU engine, whole: the real trainer processes with the GPU module on the emulated CUDA
// (tests/support/emulated_gpu), one rank or several that share the "GPU" and talk through host memory. What
// no emulator shows, ./dev gpu does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "search/planner/nominal_times.h"
#include "tests/multirank/process_jobs.h"
#include "tests/support/build_paths.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/thread_ranks.h"
#include "trainer/run/safetensors.h"

namespace autocfg {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class EmulatedGpu : public ::testing::Test {
 protected:
  EmulatedGpu() {
    setenv("AUTOCFG_GPU_MODULE", BuildPath("tests/libautocfg_emulated_gpu.so").c_str(), 1);
    unsetenv("AUTOCFG_GPU_TRANSPORT");
  }
  ~EmulatedGpu() override {
    unsetenv("AUTOCFG_GPU_MODULE");
    unsetenv("AUTOCFG_GPU_TRANSPORT");
  }
};

// Small, with heads that the tensor cores' path of attention takes and others that it does not, and a
// vocabulary that needs padding.
TrainConfig Gpt2(const char* precision) {
  TrainConfig c = test::SmallConfig();
  c.model.hidden = 64;
  c.model.head_dim = 16;
  c.model.ffn_hidden = 96;
  c.workload.precision = *ParsePrecision(precision);
  c.lr.steps = 3;
  return c;
}

TrainConfig Llama(const char* precision) {
  TrainConfig c = Gpt2(precision);
  c.model.kv_heads = 2;
  c.model.head_dim = 24;
  c.model.activation = Activation::kSwiGlu;
  c.model.norm = Norm::kRmsNorm;
  c.model.position = Position::kRope;
  c.model.bias = false;
  c.model.tied_embeddings = false;
  return c;
}

void ExpectLosses(const JobResult& job, const std::vector<StepResult>& want, double tolerance) {
  ASSERT_EQ(job.outcome, JobOutcome::kDone) << job.message;
  for (const RankOutcome& rank : job.ranks) {
    const v1::TrainResult& result = rank.last.train_result();
    ASSERT_EQ(result.losses_size(), static_cast<int>(want.size()));
    EXPECT_EQ(result.peak_memory_bytes(), result.planned_memory_bytes().total());
    for (std::size_t s = 0; s < want.size(); ++s) {
      EXPECT_NEAR(result.losses(static_cast<int>(s)), want[s].loss, tolerance * want[s].loss) << "step " << s;
      EXPECT_NEAR(result.grad_norms(static_cast<int>(s)), want[s].grad_norm,
                  5 * tolerance * want[s].grad_norm)
          << "step " << s;
    }
  }
}

// Every axis and schedule, and some pairs.
std::vector<ParallelPlan> Plans() {
  return {{},
          {.tp = 2},
          {.pp = 2},
          {.dp = 2},
          {.pp = 2, .schedule = Schedule::kGPipe, .recompute = Recompute::kFull},
          {.pp = 2, .virtual_stages = 2, .schedule = Schedule::kInterleaved},
          {.tp = 2, .dp = 2},
          {.tp = 2, .pp = 2, .micro_batch = 2},
          {.pp = 2, .dp = 2, .micro_batch = 2, .recompute = Recompute::kFull, .recompute_layers = 1}};
}

TEST_F(EmulatedGpu, MakesTheStepsOfTheCpuInF32) {
  for (TrainConfig c : {Gpt2("fp32"), Llama("fp32")}) {
    const test::ThreadsOutcome cpu = test::RunAsThreads(c);
    for (const ParallelPlan& plan : Plans()) {
      SCOPED_TRACE(::testing::Message() << "tp=" << plan.tp << " pp=" << plan.pp << " dp=" << plan.dp
                                        << " vpp=" << plan.virtual_stages);
      c.plan = plan;
      ExpectLosses(RunProcesses(c, "cuda"), cpu.steps, 1e-4);
    }
  }
}

TEST_F(EmulatedGpu, MakesNearlyTheStepsOfTheCpuInBf16) {
  for (const auto& make : {Gpt2, Llama}) {
    const test::ThreadsOutcome cpu = test::RunAsThreads(make("fp32"));
    TrainConfig c = make("bf16");
    for (const ParallelPlan& plan : {ParallelPlan{}, ParallelPlan{.tp = 2, .pp = 2},
                                     ParallelPlan{.dp = 2, .recompute = Recompute::kFull}}) {
      SCOPED_TRACE(::testing::Message() << "tp=" << plan.tp << " pp=" << plan.pp << " dp=" << plan.dp);
      c.plan = plan;
      ExpectLosses(RunProcesses(c, "cuda"), cpu.steps, 2e-2);
    }
  }
}

// What is planned on the dry device is what the GPU's arena has, master weights and all.
TEST_F(EmulatedGpu, TakesTheBytesThatWerePlanned) {
  TrainConfig c = Gpt2("bf16");
  c.plan = {.tp = 2, .pp = 2, .virtual_stages = 2, .schedule = Schedule::kInterleaved};
  const JobResult dry = RunProcesses(c, "dry"), gpu = RunProcesses(c, "cuda");
  ASSERT_EQ(dry.outcome, JobOutcome::kDone) << dry.message;
  ASSERT_EQ(gpu.outcome, JobOutcome::kDone) << gpu.message;
  for (std::size_t r = 0; r < dry.ranks.size(); ++r) {
    EXPECT_EQ(gpu.ranks[r].last.train_result().planned_memory_bytes().SerializeAsString(),
              dry.ranks[r].last.train_result().planned_memory_bytes().SerializeAsString());
  }
}

// Times of the stream's own clock, and what the libraries' workspaces and the context take: more than what
// products alone need, and nothing of the scratch tensors that ops are timed on.
TEST_F(EmulatedGpu, CalibratesWithTheDevicesOverhead) {
  v1::RunSpec job;
  job.set_device("cuda");
  job.mutable_calibrate()->set_time_budget_s(0.1);
  const OpDesc product{.kind = OpKind::kMatmul, .dtype = DType::kBF16, .dims = {64, 64, 32}};
  const OpDesc large{.kind = OpKind::kFill, .dtype = DType::kF32, .dims = {64 << 20}};  // 256 MiB
  for (const OpDesc& op : {product, large}) *job.mutable_calibrate()->add_ops() = ToProto(op);
  const JobResult result = RunProcesses(job, 1);
  ASSERT_EQ(result.outcome, JobOutcome::kDone) << result.message;
  const v1::CalibrateResult& calibration = result.ranks[0].last.calibrate_result();
  ASSERT_EQ(calibration.ops_size(), 2);
  for (const v1::OpTime& time : calibration.ops()) EXPECT_GT(time.seconds(), 0);
  EXPECT_GE(calibration.device_overhead_bytes(), 32 << 20);  // cuBLASLt's workspace
  EXPECT_LT(calibration.device_overhead_bytes(), 64 << 20);
}

// Every op of a step, with the types that a run has: what a study on GPUs begins with.
TEST_F(EmulatedGpu, TimesEveryOpOfAStep) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (TrainConfig c : {Gpt2(precision), Llama(precision)}) {
      c.plan = {.recompute = Recompute::kFull};
      v1::RunSpec job;
      job.set_device("cuda");
      job.mutable_calibrate();
      for (const OpTime& time : PlanOpTimes(c.model, c.workload, c.plan, NominalTimes()))
        *job.mutable_calibrate()->add_ops() = ToProto(time.op);
      const JobResult result = RunProcesses(job, 1);
      ASSERT_EQ(result.outcome, JobOutcome::kDone) << result.message;
      const v1::CalibrateResult& calibration = result.ranks[0].last.calibrate_result();
      ASSERT_EQ(calibration.ops_size(), job.calibrate().ops_size());
      ASSERT_GT(calibration.ops_size(), 20);
      for (const v1::OpTime& time : calibration.ops()) EXPECT_GT(time.seconds(), 0);
    }
  }
}

// The file of a run on GPUs is that of one on the CPU, each tensor within the losses' tolerance of its
// largest element.
TEST_F(EmulatedGpu, SavesTheWeightsOfTheCpu) {
  const TempDir directory;
  const std::string cpu_path = directory.File("cpu.safetensors"),
                    gpu_path = directory.File("gpu.safetensors");
  for (TrainConfig c : {Gpt2("fp32"), Llama("fp32")}) {
    // the bias of the keys has no gradient but rounding, which a small eps would make an update of
    c.adamw.eps = 1e-3;
    c.save_path = cpu_path;
    const JobResult cpu = RunProcesses(c, "cpu");
    ASSERT_EQ(cpu.outcome, JobOutcome::kDone) << cpu.message;
    const SafetensorsFile want(cpu_path);
    for (const ParallelPlan& plan : {ParallelPlan{}, ParallelPlan{.tp = 2, .pp = 2}}) {
      SCOPED_TRACE(::testing::Message() << "tp=" << plan.tp << " pp=" << plan.pp);
      c.plan = plan;
      c.save_path = gpu_path;
      const JobResult gpu = RunProcesses(c, "cuda");
      ASSERT_EQ(gpu.outcome, JobOutcome::kDone) << gpu.message;
      const SafetensorsFile got(gpu_path);
      ASSERT_EQ(got.tensors().size(), want.tensors().size());
      for (const auto& [name, tensor] : want.tensors()) {
        SCOPED_TRACE(name);
        ASSERT_EQ(got.tensors().at(name).shape, tensor.shape);
        std::vector<double> wanted(static_cast<std::size_t>(tensor.end - tensor.begin) / sizeof(float)),
            values(wanted.size());
        want.Read(name, 0, wanted);
        got.Read(name, 0, values);
        double largest = 0;
        for (const double w : wanted) largest = std::max(largest, std::abs(w));
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(values[i], wanted[i], 1e-4 * largest) << "element " << i;
      }
    }
  }
}

// What a run in bf16 starts from is what the file has: a step that changes nothing writes the same file, so
// the master copies, which AdamW rounds the weights from, are the file's values too.
TEST_F(EmulatedGpu, StartsFromTheWeightsOfAFileInBf16) {
  const TempDir directory;
  const auto run = [&](const TrainConfig& c) {
    const JobResult job = RunProcesses(c, "cuda");
    EXPECT_EQ(job.outcome, JobOutcome::kDone) << job.message;
    std::ifstream in(c.save_path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  TrainConfig c = Llama("bf16");
  c.plan = {.tp = 2, .pp = 2};
  c.lr.steps = 1;
  c.save_path = directory.File("trained.safetensors");
  const std::string trained = run(c);
  c.init_path = c.save_path;
  c.save_path = directory.File("again.safetensors");
  c.lr.lr = c.lr.min_lr = 0;
  c.plan = {};
  EXPECT_TRUE(run(c) == trained);
  EXPECT_GT(trained.size(), 10'000u);
}

// What is not as one would expect is on the ranks' log, once for ranks of the same shapes; what is as
// expected is not.
TEST_F(EmulatedGpu, SaysWhatItHasChosen) {
  setenv("AUTOCFG_MATMUL", "heuristic", 1);
  TrainConfig c = Gpt2("bf16");
  c.plan = {.tp = 2};
  const JobResult untimed = RunProcesses(c, "cuda");
  unsetenv("AUTOCFG_MATMUL");
  ASSERT_EQ(untimed.outcome, JobOutcome::kDone) << untimed.message;
  EXPECT_THAT(untimed.ranks[0].log_tail,
              HasSubstr("own kernels, tensor cores (cuDNN refuses: the emulator has no cuDNN)"));
  EXPECT_THAT(untimed.ranks[0].log_tail, HasSubstr("algorithms, not timed: AUTOCFG_MATMUL=heuristic"));
  EXPECT_THAT(untimed.ranks[0].log_tail, HasSubstr("2 ranks talk by UCX"));
  EXPECT_EQ(untimed.ranks[1].log_tail, "");

  c.plan = {};
  const JobResult timed = RunProcesses(c, "cuda");
  ASSERT_EQ(timed.outcome, JobOutcome::kDone) << timed.message;
  EXPECT_THAT(timed.ranks[0].log_tail, HasSubstr("cuDNN refuses"));
  EXPECT_THAT(timed.ranks[0].log_tail, Not(HasSubstr("algorithm")));
}

TEST_F(EmulatedGpu, SaysThatRanksOfOneGpuCannotUseNccl) {
  setenv("AUTOCFG_GPU_TRANSPORT", "nccl", 1);
  TrainConfig c = Gpt2("fp32");
  c.plan = {.dp = 2};
  const JobResult job = RunProcesses(c, "cuda");
  EXPECT_NE(job.outcome, JobOutcome::kDone);
  EXPECT_THAT(job.message, HasSubstr("ranks share a GPU, which NCCL refuses"));
}

TEST_F(EmulatedGpu, RefusesTypesThatItDoesNotRunByName) {
  const JobResult job = RunProcesses(Gpt2("fp64"), "cuda");
  EXPECT_NE(job.outcome, JobOutcome::kDone);
  EXPECT_THAT(job.message, HasSubstr("fp64"));
}

TEST(GpuModule, IsNamedWhereItIsNotThere) {
  setenv("AUTOCFG_GPU_MODULE", "/nowhere/libautocfg_cuda.so", 1);
  const JobResult job = RunProcesses(Gpt2("fp32"), "cuda");
  unsetenv("AUTOCFG_GPU_MODULE");
  EXPECT_NE(job.outcome, JobOutcome::kDone);
  EXPECT_THAT(job.message, HasSubstr("/nowhere/libautocfg_cuda.so, which AUTOCFG_GPU_MODULE names"));
}

}  // namespace
}  // namespace autocfg
