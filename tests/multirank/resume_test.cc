// A run that is stopped and resumed, under the same or another plan, continues as if it had not been stopped.
// Ranks are threads that communicate over UCX.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <string>
#include <vector>

#include "search/plan/plan_text.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/model_styles.h"
#include "tests/trainer/same_outcome.h"
#include "tests/trainer/stopped_runs.h"

namespace autocfg::trainer {
namespace {

using test::ExpectSameSteps;
using test::ExpectSameWeights;
using test::ModelStyles;
using test::RunUntil;
using test::StopAndResume;
using test::TrainedRun;
using test::World;
using ::testing::IsEmpty;

// Six steps with clipping, decay, warm-up and a cosine, stopped after the third.
constexpr std::int64_t kStop = 3;

TrainConfig SixSteps(const ModelSpec& model, const char* precision = "fp64") {
  TrainConfig c;
  c.model = model;
  test::SetLayers(c.model, 4);
  c.workload.global_batch = 8;
  c.workload.seq_len = 4;
  c.workload.precision = *ParsePrecision(precision);
  c.lr = {.lr = 1e-2, .min_lr = 1e-3, .decay = LrDecay::kCosine, .warmup_steps = 2, .steps = 6};
  c.clip_norm = 0.5;
  c.seed = 5;
  return c;
}

TrainConfig Under(TrainConfig c, const std::string& plan) {
  c.plan = *ParsePlanText(plan);
  c.plan.split = SplitMode::kEven;
  return c;
}

// Each differs from its neighbours in several axes.
const std::vector<std::string>& PlanTexts() {
  static const auto& plans = *new std::vector<std::string>{
      "tp=1,pp=1,dp=1,mbs=2",
      "tp=2,pp=2,dp=1,mbs=1,sp=1",
      "tp=1,pp=2,dp=2,mbs=2,zero=1",
      "tp=4,pp=1,dp=1,mbs=1",
      "tp=1,pp=2,dp=1,mbs=1,schedule=interleaved,vpp=2",
      "tp=2,pp=1,dp=2,mbs=1,sp=1",
      "tp=1,pp=1,dp=4,mbs=1,zero=1,dp_shard=2",
      "tp=1,pp=4,dp=1,mbs=4,schedule=gpipe",
      "tp=2,pp=1,dp=2,mbs=1,zero=3",
      "tp=2,pp=2,dp=2,mbs=2,schedule=zb-h1,recompute=full,zero=1",
  };
  return plans;
}

class ResumeOfStyle : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ResumeOfStyle, ContinuesUnderAnotherPlanAsIfNotStopped) {
  const TrainConfig config = SixSteps(ModelStyles().at(GetParam()));
  const TrainedRun whole = RunUntil(config, config.lr.steps);
  const std::size_t count = PlanTexts().size();
  // Over the styles, each plan is followed by each other one.
  const std::size_t distance = 1 + GetParam();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& first = PlanTexts()[i];
    const std::string& second = PlanTexts()[(i + distance) % count];
    SCOPED_TRACE(fmt::format("{}: {}, then {}", config.model.name, first, second));
    const TempDir directory;
    const TrainedRun resumed =
        StopAndResume(Under(config, first), Under(config, second), kStop, directory.File("ckpt"));
    EXPECT_THAT(resumed.differences, IsEmpty());
    ExpectSameSteps(whole, resumed, 1e-9);
    ExpectSameWeights(config.model, whole, resumed, 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Styles, ResumeOfStyle, ::testing::Range<std::size_t>(0, ModelStyles().size()));

TEST(Resume, ContinuesUnderTheSamePlanToTheLastBit) {
  for (const char* precision : {"fp32", "fp64"}) {
    for (const std::size_t style : {0, 1}) {
      const TrainConfig config = SixSteps(ModelStyles().at(style), precision);
      for (const std::string& plan : PlanTexts()) {
        SCOPED_TRACE(fmt::format("{} {}: {}", precision, config.model.name, plan));
        const TempDir directory;
        const TrainConfig c = Under(config, plan);
        const TrainedRun whole = RunUntil(c, c.lr.steps);
        const TrainedRun resumed = StopAndResume(c, c, kStop, directory.File("ckpt"));
        ASSERT_EQ(resumed.steps.size(), whole.steps.size());
        for (std::size_t s = 0; s < whole.steps.size(); ++s) {
          EXPECT_EQ(resumed.steps[s].loss, whole.steps[s].loss) << "step " << s;
          EXPECT_EQ(resumed.steps[s].grad_norm, whole.steps[s].grad_norm) << "step " << s;
        }
        EXPECT_EQ(resumed.weights, whole.weights);
      }
    }
  }
}

// Stopped and resumed after every step, each time under another plan.
TEST(Resume, ContinuesAgainAndAgain) {
  const TrainConfig config = SixSteps(ModelStyles().at(1));
  const TrainedRun whole = RunUntil(config, config.lr.steps);
  const TempDir directory;
  TrainedRun last;
  for (std::int64_t step = 1; step <= config.lr.steps; ++step) {
    TrainConfig c = Under(config, PlanTexts()[static_cast<std::size_t>(step)]);
    c.checkpoint_path = directory.File("ckpt");
    if (step > 1) c.resume_path = c.checkpoint_path;
    last = RunUntil(c, step);
    ASSERT_EQ(last.steps.size(), 1u);
    EXPECT_NEAR(last.steps[0].loss, whole.steps[static_cast<std::size_t>(step - 1)].loss, 1e-9);
  }
  ExpectSameWeights(config.model, whole, last, 1e-9);
}

// Whichever file is damaged, and whichever rank finds it: all ranks take the older checkpoint.
TEST(Resume, AllRanksPassOverADamagedCheckpoint) {
  const TrainConfig config = SixSteps(ModelStyles().at(1));
  const TempDir directory;
  for (const std::int64_t step : {2, 3}) {
    TrainConfig c = Under(config, "tp=2,pp=2,dp=1,mbs=1");
    c.checkpoint_path = directory.File("ckpt");
    if (step == 3) c.resume_path = c.checkpoint_path;
    RunUntil(c, step);
  }
  for (const char* plan : {"tp=1,pp=2,dp=1,mbs=1", "tp=2,pp=1,dp=2,mbs=1", "tp=1,pp=1,dp=1,mbs=1"}) {
    for (int rank = 0; rank < 4; ++rank) {
      const std::string file = directory.File(fmt::format("ckpt/step-3/rank-{}.safetensors", rank));
      std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
      stream.seekg(-1, std::ios::end);
      const int last = stream.get();
      const auto set_last = [&](int byte) {
        stream.seekp(-1, std::ios::end);
        stream.put(static_cast<char>(byte));
        stream.flush();
      };
      set_last(last ^ 1);
      TrainConfig c = Under(config, plan);
      c.resume_path = directory.File("ckpt");
      EXPECT_EQ(RunUntil(c, 3).steps.size(), 1u) << plan << ", rank " << rank;
      set_last(last);
      EXPECT_EQ(RunUntil(c, 3).steps.size(), 0u) << plan << ", rank " << rank;
    }
  }
}

// On a device whose memory the host cannot access, over both ways to communicate.
TEST(Resume, WorksOnDevicesWithMemoryOfTheirOwn) {
  const TrainConfig config = SixSteps(ModelStyles().at(0));
  const TrainedRun whole = RunUntil(config, config.lr.steps);
  for (const World world : {World::kStaged, World::kStreamed}) {
    const TempDir directory;
    const TrainedRun resumed = StopAndResume(Under(config, PlanTexts()[1]), Under(config, PlanTexts()[2]),
                                             kStop, directory.File("ckpt"), world);
    EXPECT_THAT(resumed.differences, IsEmpty());
    ExpectSameSteps(whole, resumed, 1e-9);
    ExpectSameWeights(config.model, whole, resumed, 1e-9);
  }
}

}  // namespace
}  // namespace autocfg::trainer
