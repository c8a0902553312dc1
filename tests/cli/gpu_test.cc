// Tests how `autocfg` uses a machine's GPUs, as a user sees it. The GPUs are fake and the ranks compute
// nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "nlohmann/json.hpp"
#include "tests/cli/gpu_machine.h"
#include "worker/jobs/job_runner.h"

namespace autocfg::cli {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using nlohmann::json;

std::vector<std::string> GpuTrain(const std::string& plan, std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"train", "--model", "gpt2-tiny", "--steps", "2", "--json", "--plan", plan};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<std::string> GpuSearch(std::vector<std::string> more = {}) {
  std::vector<std::string> args = {"search", "--model",      "gpt2-tiny", "--global-batch",
                                   "8",      "--max-trials", "2",         "--json"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// Returns the GPUs that ranks saw.
std::set<std::string> Seen(const std::vector<std::string>& ranks) {
  std::set<std::string> gpus;
  for (const std::string& rank : ranks) gpus.insert(rank.substr(rank.rfind(' ') + 1));
  return gpus;
}

TEST(GpuTrain, EachRankHasAGpu) {
  const GpuMachine machine(EqualGpus(2));
  for (const std::vector<std::string>& device : {std::vector<std::string>{}, {"--device", "cuda"}}) {
    std::filesystem::remove(machine.home() / "ranks.log");
    const auto finished = machine.Run(GpuTrain("dp=2", device));
    ASSERT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_EQ(finished.err, "") << "nothing to note";
    EXPECT_EQ(json::parse(finished.out)["device"], "cuda");
    EXPECT_THAT(machine.Ranks(),
                ElementsAre("train bf16 on cuda: rank 0 of 2, CUDA_VISIBLE_DEVICES GPU-0000-a",
                            "train bf16 on cuda: rank 1 of 2, CUDA_VISIBLE_DEVICES GPU-0001-b"));
  }
}

// Ranks also have threads of the driver and of NCCL, and draw their initial weights on all cores.
TEST(GpuTrain, RanksAreBoundToGpusAndNotToCores) {
  v1::Job job;
  job.set_ranks(2);
  job.set_device("cuda");
  const worker::JobRequest request = worker::MakeJobRequest(job, {0, 1}, {"GPU-a", "GPU-b"});
  EXPECT_THAT(request.cores, IsEmpty());
  EXPECT_THAT(request.gpus, ElementsAre("GPU-a", "GPU-b"));
  job.set_device("cpu");
  EXPECT_THAT(worker::MakeJobRequest(job, {0, 1}, {"GPU-a", "GPU-b"}).cores,
              ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(GpuTrain, MaySaveWeights) {
  const GpuMachine machine(EqualGpus(1));
  const auto finished = machine.Run(GpuTrain("tp=1", {"--save", machine.home() / "weights.safetensors"}));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
}

TEST(GpuTrain, MoreRanksThanGpusShareThem) {
  const GpuMachine machine(EqualGpus(1));
  const auto finished = machine.Run(GpuTrain("tp=2,dp=2", {"--precision", "fp32"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("4 ranks share 1 GPU"));
  EXPECT_EQ(machine.Ranks().size(), 4u);
  EXPECT_THAT(machine.Ranks(),
              Each(testing::AllOf(StartsWith("train fp32 on cuda"), EndsWith("GPU-0000-a"))));
}

TEST(GpuTrain, NotesABusyGpu) {
  const GpuMachine machine(EqualGpus(1, ",used=75161927680,pid=4321"));
  const auto finished = machine.Run(GpuTrain("tp=1"));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, testing::AllOf(HasSubstr("70.0 GiB of its 141.0 GiB are in use"),
                                           HasSubstr("process 4321"), HasSubstr("not those of a free GPU")));
}

TEST(GpuTrain, OtherDevicesDoNotUseGpus) {
  const GpuMachine machine(EqualGpus(1));
  ASSERT_EQ(machine.Run(GpuTrain("tp=1", {"--device", "cpu"})).exit_code, 0);
  const auto fp64 = machine.Run(GpuTrain("tp=1", {"--precision", "fp64"}));
  EXPECT_THAT(fp64.err, HasSubstr("on the CPU, though there is a GPU: fp64"));
  EXPECT_THAT(machine.Ranks(), ElementsAre("train fp32 on cpu: rank 0 of 1, CUDA_VISIBLE_DEVICES not set",
                                           "train fp64 on cpu: rank 0 of 1, CUDA_VISIBLE_DEVICES not set"));
}

TEST(GpuTrain, APlanThatDoesNotFitIsAnAnswer) {
  // 3 GiB, of which 2.5 GiB are overhead outside the arena
  const GpuMachine machine("name=NVIDIA H200,uuid=GPU-x,total=3221225472");
  const auto finished = machine.Run({"train", "--model", "gpt2-124m", "--plan", "tp=1", "--steps", "1"});
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_THAT(finished.err, testing::AllOf(HasSubstr("does not fit"),
                                           HasSubstr("more than the 512.0 MiB that a rank may use: ")));
  EXPECT_THAT(machine.Ranks(), IsEmpty());
}

TEST(GpuTrain, RejectsPrecisionsThatGpusLack) {
  const GpuMachine machine(EqualGpus(1));
  for (const auto& [precision, says] :
       {std::pair("fp64", "fp64 is for CPUs only"), {"fp16", "fp16 on a GPU is not supported yet"}}) {
    for (const auto& args : {GpuTrain("tp=1", {"--device", "cuda", "--precision", precision}),
                             GpuSearch({"--device", "cuda", "--precision", precision})}) {
      const auto finished = machine.Run(args);
      EXPECT_EQ(finished.exit_code, 2);
      EXPECT_THAT(finished.err, testing::AllOf(StartsWith("autocfg: --precision: "), HasSubstr(says)));
      EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
    }
  }
  EXPECT_THAT(machine.Ranks(), IsEmpty());
}

TEST(GpuSearch, LocalUsesTheGpus) {
  const GpuMachine machine(EqualGpus(2) + ";" + EqualGpus(1, ",mig=1"));
  const auto finished = machine.Run(GpuSearch());
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("GPU 2 (NVIDIA H200) is left out: MIG is on"));
  const auto answer = json::parse(finished.out);
  EXPECT_EQ(answer["device"], "cuda");
  EXPECT_EQ(answer["versions"]["engine"], "cuda");
  EXPECT_EQ(answer["workload"]["precision"], "bf16");
  EXPECT_EQ(answer["cluster"]["device"]["name"], "NVIDIA H200");
  EXPECT_EQ(answer["cluster"]["gpus_per_node"], 2);
  EXPECT_EQ(answer["best"]["measured"]["device_fingerprint"], "NVIDIA H200, driver 570.86.15");
  EXPECT_EQ(answer["best"]["measured"]["ranks_per_gpu"], 1);
  const auto ranks = machine.Ranks();
  EXPECT_THAT(Seen(ranks), ElementsAre("GPU-0000-a", "GPU-0001-b"));
  EXPECT_THAT(ranks, Each(HasSubstr("on cuda: ")));
  EXPECT_THAT(ranks, testing::Contains(StartsWith("calibrate on cuda: rank 1 of 2")));
  EXPECT_THAT(ranks, testing::Contains(StartsWith("train bf16 on cuda: rank 1 of 2")));
}

TEST(GpuSearch, FourRanksOnOneGpu) {
  const GpuMachine machine(EqualGpus(1));
  const auto finished = machine.Run(GpuSearch({"--cluster", "local:1x4"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("4 ranks share 1 GPU"));
  const auto answer = json::parse(finished.out);
  EXPECT_EQ(answer["cluster"]["device"]["memory_bytes"], kFakeGpuBytes / 4);
  EXPECT_EQ(answer["best"]["measured"]["ranks_per_gpu"], 4);
  EXPECT_THAT(machine.Ranks(), testing::Contains(StartsWith("train bf16 on cuda: rank 3 of 4")));
}

TEST(GpuSearch, SlicesOfALargerCluster) {
  const GpuMachine machine(EqualGpus(1));
  for (const char* cluster : {"h200-sxm:1x8", "h200-sxm:2x8"}) {
    std::filesystem::remove(machine.home() / "ranks.log");
    const auto finished = machine.Run(GpuSearch({"--cluster", cluster, "--device", "cuda"}));
    ASSERT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr("this machine has 1 of the 8 GPUs of a node"));
    EXPECT_THAT(finished.err, Not(HasSubstr("share")));
    const auto answer = json::parse(finished.out);
    EXPECT_EQ(answer["best"]["provenance"], "predicted");
    EXPECT_EQ(answer["cluster"]["gpus_per_node"], 8);
    EXPECT_THAT(machine.Ranks(), Each(testing::AllOf(HasSubstr("rank 0 of 1"), EndsWith("GPU-0000-a"))));
    EXPECT_THAT(machine.Ranks(), testing::Contains(StartsWith("train bf16 slice on cuda")));
  }
}

TEST(GpuSearch, RejectsOtherGpusThanTheClusters) {
  const GpuMachine machine(EqualGpus(1));
  const auto finished = machine.Run(GpuSearch({"--cluster", "a100-80gb-sxm:2x8"}));
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.err, testing::AllOf(HasSubstr("NVIDIA H200"), HasSubstr("--predict-only")));
  EXPECT_EQ(machine
                .Run({"search", "--model", "gpt2-tiny", "--global-batch", "8", "--cluster",
                      "a100-80gb-sxm:1x2", "--predict-only"})
                .exit_code,
            0);
}

TEST(GpuSearch, FallsBackToTheCpuWithoutTheEngine) {
  const GpuMachine machine(EqualGpus(1), /*engine=*/false);
  const auto finished = machine.Run(GpuSearch({"--cluster", "local:1x1"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("on the CPU, though there is a GPU: this build has no GPU engine"));
  EXPECT_EQ(json::parse(finished.out)["device"], "cpu");
  const auto asked = machine.Run(GpuSearch({"--device", "cuda"}));
  EXPECT_EQ(asked.exit_code, 2);
  EXPECT_EQ(std::count(asked.err.begin(), asked.err.end(), '\n'), 1) << asked.err;
  EXPECT_THAT(asked.err, HasSubstr("--device: cuda: this build has no GPU engine"));
}

TEST(GpuSearch, HiddenGpusAreIgnored) {
  const GpuMachine machine(EqualGpus(2));
  const ScopedVariable visible("CUDA_VISIBLE_DEVICES", "");
  const auto finished = machine.Run(GpuSearch({"--device", "cuda"}));
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.err, HasSubstr("no GPU: CUDA_VISIBLE_DEVICES=\"\" shows none of 2"));
}

TEST(GpuDoctor, HasALineForEachGpu) {
  const GpuMachine machine(EqualGpus(2));
  const auto finished = machine.Run({"doctor"});
  EXPECT_THAT(Unwrapped(finished.out),
              testing::AllOf(HasSubstr("gpu driver"), HasSubstr("gpu 0"), HasSubstr("gpu 1"),
                             HasSubstr("GPU-0001-b"), HasSubstr("a step of gpt2-tiny ran on GPU 0")));
}

}  // namespace
}  // namespace autocfg::cli
