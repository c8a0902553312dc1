// Jobs on the emulated GPU: what calibrations and overlap report, faults of the device, logs, and what is
// rejected.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "search/cost/op_times/nominal_times.h"
#include "search/plan/plan_text.h"
#include "tests/multirank/emulated_gpu/emulated_gpu_fixture.h"
#include "tests/support/missing_path.h"
#include "tests/support/scoped_variable.h"

namespace autocfg::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Ranks that share a GPU communicate through their hosts. How long that runs beside computes is not known, so
// the result has no value, not 0.
TEST_F(EmulatedGpu, DoesNotSayWhatOverlapHides) {
  for (const auto& [text, known] :
       {std::pair("tp=2,mbs=1", true), std::pair("tp=2,mbs=1,tp_overlap=2", false),
        std::pair("dp=2,mbs=1,grad_overlap=1", false),
        std::pair("dp=2,mbs=1,zero=1,param_overlap=1", false)}) {
    SCOPED_TRACE(text);
    TrainConfig c = Gpt2("fp32");
    c.plan = *ParsePlanText(text);
    c.untimed_steps = 1;
    c.record_breakdown = true;
    const worker::JobResult job = RunProcesses(c, "cuda");
    ASSERT_EQ(job.outcome, v1::OUTCOME_MEASURED) << job.message;
    for (const worker::RankEnd& rank : job.ranks) {
      ASSERT_TRUE(rank.last.train_result().has_breakdown_s());
      EXPECT_EQ(rank.last.train_result().breakdown_s().has_hidden_comm(), known);
    }
  }
}

// Times come from the stream's own clock. The overhead includes the libraries' workspaces and the context, so
// it exceeds that of matrix products alone. It does not include the scratch tensors of timed ops.
TEST_F(EmulatedGpu, CalibrationReportsDeviceOverhead) {
  v1::RunSpec job;
  job.set_device("cuda");
  job.mutable_calibrate()->set_time_budget_s(0.1);
  const OpDesc product{.kind = OpKind::kMatmul, .dtype = DType::kBF16, .dims = {64, 64, 32}};
  const OpDesc large{.kind = OpKind::kFill, .dtype = DType::kF32, .dims = {64 << 20}};  // 256 MiB
  for (const OpDesc& op : {product, large}) *job.mutable_calibrate()->add_ops() = ToProto(op);
  const worker::JobResult result = RunProcesses(job, 1);
  ASSERT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
  const v1::CalibrateResult& calibration = result.ranks[0].last.calibrate_result();
  ASSERT_EQ(calibration.ops_size(), 2);
  for (const v1::OpTime& time : calibration.ops()) EXPECT_GT(time.seconds(), 0);
  EXPECT_GE(calibration.device_overhead_bytes(), 32 << 20);  // cuBLASLt's workspace
  EXPECT_LT(calibration.device_overhead_bytes(), 64 << 20);
}

// Every op of a step, with the types of a run: the first step of a study on GPUs.
TEST_F(EmulatedGpu, TimesEveryOpOfAStep) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (TrainConfig c : {Gpt2(precision), Llama(precision)}) {
      v1::RunSpec job;
      job.set_device("cuda");
      job.mutable_calibrate();
      std::set<OpDesc> ops;
      for (const Attention attention : {Attention::kFused, Attention::kUnfused}) {
        c.plan = {{}, {.recompute = Recompute::kFull, .attention = attention}};
        for (const OpTime& time : PlanOpTimes(c, NominalTimes())) ops.insert(time.op);
      }
      for (const OpDesc& op : ops) *job.mutable_calibrate()->add_ops() = ToProto(op);
      const worker::JobResult result = RunProcesses(job, 1);
      ASSERT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
      const v1::CalibrateResult& calibration = result.ranks[0].last.calibrate_result();
      ASSERT_EQ(calibration.ops_size(), job.calibrate().ops_size());
      ASSERT_GT(calibration.ops_size(), 20);
      for (const v1::OpTime& time : calibration.ops()) EXPECT_GT(time.seconds(), 0);
    }
  }
}

// What a broken kernel does to a run, and that the run says so.
TEST_F(EmulatedGpu, FaultOfTheDeviceEndsTheJobWithItsName) {
  TrainConfig c = Gpt2("fp32");
  c.plan = {{.dp = 2}};
  const ScopedVariable variable("AUTOCFG_EMULATED_FAULT", "illegal_address@40");
  const worker::JobResult job = RunProcesses(c, "cuda");
  EXPECT_EQ(job.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(job.failure, v1::FAILURE_KIND_OWN);
  EXPECT_THAT(job.message, HasSubstr("an illegal memory access was encountered (cudaErrorIllegalAddress)"));
}

TEST_F(EmulatedGpu, FaultNamesItsOpIfEachOpIsAwaited) {
  const ScopedVariable same_launches("AUTOCFG_MATMUL", "heuristic"), sync("AUTOCFG_CUDA_SYNC", "ops");
  const TrainConfig c = Gpt2("fp32");
  const worker::JobResult sound = RunProcesses(c, "cuda");
  EXPECT_EQ(sound.outcome, v1::OUTCOME_MEASURED) << sound.message;
  // The first op is the fill of the scalars, by the driver; the first kernel is the embedding's.
  const ScopedVariable variable("AUTOCFG_EMULATED_FAULT", "illegal_address@1");
  const worker::JobResult job = RunProcesses(c, "cuda");
  EXPECT_EQ(job.outcome, v1::OUTCOME_FAILED);
  EXPECT_THAT(job.message, AllOf(HasSubstr("op 2 of this rank, embedding_forward fp32 "),
                                 HasSubstr("(cudaErrorIllegalAddress)")));
}

TEST_F(EmulatedGpu, HangingKernelEndsAtTheTimeLimit) {
  const ScopedVariable variable("AUTOCFG_EMULATED_FAULT", "hang@40");
  const worker::JobResult job = RunProcesses(Gpt2("fp32"), "cuda", {}, std::chrono::seconds(3));
  EXPECT_EQ(job.outcome, v1::OUTCOME_TIMED_OUT);
  EXPECT_THAT(job.message, HasSubstr("time limit of 3 s"));
}

TEST_F(EmulatedGpu, WrongKernelChangesTheLosses) {
  const TrainConfig c = Gpt2("fp32");
  const test::TrainedRun cpu = test::RunAsThreads(c);
  const ScopedVariable same_launches("AUTOCFG_MATMUL", "heuristic");
  // Returns how many steps have another loss than on the CPU; NaN is another.
  const auto differ = [&](const char* fault) {
    const ScopedVariable variable("AUTOCFG_EMULATED_FAULT", fault);
    const worker::JobResult job = RunProcesses(c, "cuda");
    EXPECT_EQ(job.outcome, v1::OUTCOME_MEASURED) << job.message;
    int count = 0;
    for (std::size_t s = 0; s < cpu.steps.size(); ++s) {
      const double loss = job.ranks[0].last.train_result().losses(static_cast<int>(s));
      if (!(std::abs(loss - cpu.steps[s].loss) < 1e-4)) ++count;
    }
    return count;
  };
  EXPECT_EQ(differ(""), 0);
  int wrong = 0;
  for (const char* fault : {"wrong@40", "wrong@80", "wrong@120", "wrong@160"})
    wrong += differ(fault) > 0 ? 1 : 0;
  EXPECT_GE(wrong, 2) << "of 4 kernels; the next step's fill hides what some would have written";
}

// Unusual choices appear on the ranks' log, once for ranks with the same shapes. Usual choices do not appear.
TEST_F(EmulatedGpu, LogsUnusualChoices) {
  setenv("AUTOCFG_MATMUL", "heuristic", 1);
  TrainConfig c = Gpt2("bf16");
  c.plan = {{.tp = 2}};
  const worker::JobResult untimed = RunProcesses(c, "cuda");
  unsetenv("AUTOCFG_MATMUL");
  ASSERT_EQ(untimed.outcome, v1::OUTCOME_MEASURED) << untimed.message;
  EXPECT_THAT(untimed.ranks[0].log_tail,
              HasSubstr("own kernels, tensor cores (cuDNN refuses: the emulator has no cuDNN)"));
  EXPECT_THAT(untimed.ranks[0].log_tail, HasSubstr("algorithms, not timed: AUTOCFG_MATMUL=heuristic"));
  EXPECT_THAT(untimed.ranks[0].log_tail, HasSubstr("2 ranks communicate through UCX"));
  EXPECT_EQ(untimed.ranks[1].log_tail, "");

  c.plan = {};
  const worker::JobResult timed = RunProcesses(c, "cuda");
  ASSERT_EQ(timed.outcome, v1::OUTCOME_MEASURED) << timed.message;
  EXPECT_THAT(timed.ranks[0].log_tail, HasSubstr("cuDNN refuses"));
  EXPECT_THAT(timed.ranks[0].log_tail, Not(HasSubstr("algorithm")));
}

TEST_F(EmulatedGpu, RejectsNcclForRanksOfOneGpu) {
  setenv("AUTOCFG_GPU_TRANSPORT", "nccl", 1);
  TrainConfig c = Gpt2("fp32");
  c.plan = {{.dp = 2}};
  const worker::JobResult job = RunProcesses(c, "cuda");
  EXPECT_NE(job.outcome, v1::OUTCOME_MEASURED);
  EXPECT_THAT(job.message, HasSubstr("ranks share a GPU, which NCCL does not support"));
}

TEST_F(EmulatedGpu, RejectsUnsupportedTypesByName) {
  const worker::JobResult job = RunProcesses(Gpt2("fp64"), "cuda");
  EXPECT_NE(job.outcome, v1::OUTCOME_MEASURED);
  EXPECT_THAT(job.message, HasSubstr("fp64"));
}

TEST(GpuModule, MissingModuleIsNamed) {
  setenv("AUTOCFG_GPU_MODULE", Missing("/nonexistent/libautocfg_cuda.so").c_str(), 1);
  const worker::JobResult job = RunProcesses(Gpt2("fp32"), "cuda");
  unsetenv("AUTOCFG_GPU_MODULE");
  EXPECT_NE(job.outcome, v1::OUTCOME_MEASURED);
  EXPECT_THAT(job.message,
              HasSubstr(Missing("/nonexistent/libautocfg_cuda.so that AUTOCFG_GPU_MODULE names")));
}

}  // namespace
}  // namespace autocfg::trainer
