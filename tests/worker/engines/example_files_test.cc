// The engines of deploy/engines: each is right, and its rules read lines of the form that the framework
// prints.
#include <cstdlib>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/program.h"
#include "tests/support/build_paths.h"
#include "tests/support/scoped_variable.h"
#include "worker/engines/command_template.h"
#include "worker/engines/engine_file.h"
#include "worker/engines/log_reader.h"

namespace autocfg::worker {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;

class ExampleEngines : public testing::Test {
 protected:
  // The programs of the examples, which this machine may lack.
  ExampleEngines() : path_("PATH", home_.path() + ":" + std::getenv("PATH")) {
    for (const char* name : {"torchrun", "git", "python3"}) {
      std::filesystem::permissions(home_.Write(name, "#!/bin/sh\n"), std::filesystem::perms::owner_all);
    }
    auto engines = LoadEngineFiles(SourcePath("deploy/engines"));
    EXPECT_TRUE(engines.ok()) << engines.status();
    if (engines.ok()) offer_.engines = *std::move(engines);
  }

  LogReader Reading(const char* engine, const std::string& lines, const StepSize& size = {}) {
    const EngineFile* file = offer_.Find(engine);
    EXPECT_NE(file, nullptr) << engine;
    LogReader reader(file->log, size);
    reader.Add(lines);
    reader.Finish();
    return reader;
  }

  const ScratchDirectory home_;
  const ScopedVariable path_;
  EngineOffer offer_;
};

TEST_F(ExampleEngines, AreRightAndOfFourFrameworks) {
  ASSERT_EQ(offer_.engines.size(), 4u);
  for (const EngineFile& engine : offer_.engines) {
    EXPECT_EQ(engine.name, engine.format) << "the name of a framework whose step is predicted";
    EXPECT_FALSE(engine.version_command.empty());
  }
}

TEST_F(ExampleEngines, Megatron) {
  const LogReader log = Reading("megatron",
                                " [2026-01-05 10:00:00.123456] iteration        1/       8 | consumed "
                                "samples:           16 | elapsed time per "
                                "iteration (ms): 10123.4 | throughput per GPU (TFLOP/s/GPU): 12.1 | learning "
                                "rate: 3.000000E-04 | global batch "
                                "size:    16 | lm loss: 1.068111E+01 | loss scale: 1.0 | grad norm: 2.100 | "
                                "number of skipped iterations:   0 | "
                                "number of nan iterations:   0 |\n"
                                "[Rank 7] (after 1 iterations) memory (MB) | allocated: 1000.0 | max "
                                "allocated: 2048.00 | reserved: 3000.0 | max "
                                "reserved: 4096.0\n"
                                " [2026-01-05 10:00:01] iteration        2/       8 | consumed samples:      "
                                "     32 | elapsed time per iteration "
                                "(ms): 812.5 | learning rate: 3.000000E-04 | global batch size:    16 | lm "
                                "loss: 9.5E+00 | loss scale: 1.0 |\n");
  EXPECT_THAT(log.TimedSteps(1, 9), ElementsAre(DoubleEq(0.8125)));
  EXPECT_EQ(log.steps(), 2);
  EXPECT_THAT(*log.first_loss(), DoubleNear(10.68111, 1e-9));
  EXPECT_EQ(*log.last_loss(), 9.5);
  EXPECT_EQ(log.peak_memory_bytes(), std::int64_t{2} << 30);
}

TEST_F(ExampleEngines, Torchtitan) {
  const LogReader log = Reading(
      "torchtitan",
      "[titan] 2026-01-05 10:00:00,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.25000  "
      "\x1b[38;2;180;60;0mgrad_norm:  3.9000  \x1b[36mmemory: 36.50GiB(38.40%)  \x1b[34mtps: 250  "
      "\x1b[36mtflops: 2.00  \x1b[35mmfu: 0.20%\x1b[39m\n"
      "[titan] 2026-01-05 10:00:01,000 - root - INFO - step:  2  loss: 11.50000  grad_norm:  3.1000  memory: "
      "37.00GiB(38.90%)  tps: 2,000  tflops: 20.00  mfu: 2.00%\n",
      {.samples = 16, .tokens = 16'000, .ranks = 8});
  EXPECT_THAT(log.TimedSteps(0, 9), ElementsAre(DoubleEq(8), DoubleEq(1)));
  EXPECT_EQ(log.last_loss(), 11.5);
  EXPECT_EQ(log.peak_memory_bytes(), std::int64_t{37} << 30);
}

TEST_F(ExampleEngines, DeepSpeed) {
  const LogReader log = Reading(
      "deepspeed",
      "loss: 9.75\n"
      "[2026-01-05 10:00:00,000] [INFO] [logging.py:107:log_dist] [Rank 0] step=3, skipped=0, lr=[0.0003], "
      "mom=[0.9]\n"
      "[2026-01-05 10:00:00,001] [INFO] [timer.py:264:stop] epoch=0/micro_step=6/global_step=3, "
      "RunningAvgSamplesPerSec=50.5, CurrSamplesPerSec=64.0, MemAllocated=4.75GB, MaxMemAllocated=15.5GB\n",
      {.samples = 16, .tokens = 16'000, .ranks = 8});
  EXPECT_THAT(log.TimedSteps(2, 9), ElementsAre(DoubleEq(0.25)));
  EXPECT_EQ(log.last_loss(), 9.75);
  EXPECT_EQ(log.peak_memory_bytes(), std::int64_t{31} << 29);
}

TEST_F(ExampleEngines, NeMo) {
  const LogReader log = Reading(
      "nemo",
      "\rEpoch 0: :   0%|          | 0/100 [00:00<?]\rEpoch 0: :   1%|          | 1/100 [00:07<12:00, "
      "reduced_train_loss=11.00, global_step=0.000, consumed_samples=16.0, train_step_timing in s=7.130]\r"
      "Epoch 0: :   2%|          | 2/100 [00:08<06:00, reduced_train_loss=10.50, global_step=1.000, "
      "consumed_samples=32.0, train_step_timing in s=1.250]\n");
  EXPECT_THAT(log.TimedSteps(1, 9), ElementsAre(DoubleEq(1.25)));
  EXPECT_EQ(log.first_loss(), 11);
}

// The documentation names every placeholder, and its example is right.
TEST_F(ExampleEngines, AreDocumented) {
  const std::string page = ReadWhole(SourcePath("docs/engines.md"));
  for (const Placeholder& each : Placeholders())
    EXPECT_THAT(page, testing::HasSubstr("`{" + std::string(each.name) + "}`"));
  const std::size_t begin = page.find("```json\n") + 8;
  const std::string example = page.substr(begin, page.find("```", begin) - begin);
  home_.Write("train.py", "");
  const auto engine = ParseEngineFile(example, home_.path());
  ASSERT_TRUE(engine.ok()) << engine.status();
  LogReader reader(engine->log, {});
  reader.Add("step 3/8 time 12.5 ms loss 4.1\n");
  EXPECT_THAT(reader.TimedSteps(2, 9), ElementsAre(DoubleEq(0.0125)));
}

// The same words tell of a failure in each.
TEST_F(ExampleEngines, Failures) {
  for (const char* engine : {"megatron", "torchtitan", "deepspeed", "nemo"}) {
    SCOPED_TRACE(engine);
    EXPECT_EQ(Reading(engine, "[rank1]: ValueError: heads do not divide\n").failure(),
              "ValueError: heads do not divide");
    EXPECT_NE(
        Reading(engine,
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
                "capacity of 79.1 GiB\n")
            .out_of_memory(),
        "");
    const LogReader log = Reading(engine,
                                  "torch.distributed.DistBackendError: NCCL error: remote process exited or "
                                  "there was a network error\n");
    EXPECT_NE(log.peer_lost(), "");
    EXPECT_EQ(log.failure(), "");
  }
}

}  // namespace
}  // namespace autocfg::worker
