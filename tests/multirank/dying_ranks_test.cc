// A rank that dies in the middle of a step, while transfers are in flight, ends its job within seconds: with
// its own error, and with nothing left behind. Ranks are processes of the real trainer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "search/plan/plan_text.h"
#include "tests/multirank/process_jobs.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/thread_ranks.h"
#include "tests/worker/launch_helpers.h"

namespace autocfg::trainer {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// Required from a rank's death to the end of its job.
constexpr std::chrono::seconds kMostSeconds{10};

struct Job {
  const char* name;
  const char* plan;
  bool checkpoints;  // after every step
};

void PrintTo(const Job& job, std::ostream* out) { *out << job.name; }

constexpr Job kJobs[] = {
    {"OverlappingMessages", "tp=1,pp=2,dp=1,mbs=1,p2p_overlap=1", false},
    {"ShardedParameters", "tp=1,pp=1,dp=2,mbs=1,zero=3", false},
    {"SplitBackwards", "tp=1,pp=2,dp=1,mbs=1,schedule=zb-h1", false},
    {"SplitBackwardsAndOverlap", "tp=1,pp=2,dp=2,mbs=1,schedule=zb-h1,zero=1,p2p_overlap=1", false},
    {"OverlappingReductions", "tp=1,pp=1,dp=2,mbs=1,grad_overlap=1", false},
    {"OverlappingReductionsOfShards", "tp=1,pp=2,dp=2,mbs=1,zero=1,grad_overlap=1", false},
    {"OverlappingGathers", "tp=1,pp=1,dp=2,mbs=1,zero=1,param_overlap=1", false},
    {"OverlappingGathersOfShards", "tp=1,pp=1,dp=2,mbs=1,zero=3,param_overlap=1", false},
    {"OverlappingUnitsOfShards", "tp=1,pp=1,dp=2,mbs=1,zero=3,grad_overlap=1,param_overlap=1", false},
    {"Checkpoints", "tp=1,pp=2,dp=1,mbs=1,p2p_overlap=1", true},
    {"CheckpointsOfShards", "tp=1,pp=1,dp=2,mbs=1,zero=3", true},
    {"CheckpointsOfOverlappingUnits", "tp=1,pp=1,dp=2,mbs=1,zero=1,grad_overlap=1,param_overlap=1", true},
};

class DyingRanks : public ::testing::TestWithParam<Job> {
 protected:
  // A run that does not end by itself.
  TrainConfig Config() const {
    TrainConfig c = test::SmallConfig();
    c.plan = *ParsePlanText(GetParam().plan);
    c.lr.decay = LrDecay::kConstant;
    c.lr.steps = 1'000'000;
    if (GetParam().checkpoints) {
      c.checkpoint_path = Checkpoints();
      c.save_every = 1;
    }
    return c;
  }
  std::string Checkpoints() const { return directory_.File("checkpoints"); }

  // Runs the job. `strike` is called after each step with the pids of the ranks; it returns true when it has
  // killed one. Returns the job's result, after checking when it ended and what it left behind.
  template <typename Strike>
  worker::JobResult Run(const TrainConfig& config, const Strike& strike) {
    std::vector<int> pids;
    Clock::time_point last_step;
    bool struck = false;
    worker::LaunchHooks hooks;
    hooks.started = [&](const std::vector<int>& started) { pids = started; };
    hooks.progress = [&](int, const v1::Progress& progress) {
      if (struck) return;
      last_step = Clock::now();
      struck = strike(progress.step(), pids);
    };
    const std::vector<std::string> before = worker::SharedMemory();
    worker::JobResult result = RunProcesses(config, "cpu", hooks);
    EXPECT_LT(Clock::now() - last_step, kMostSeconds);
    EXPECT_EQ(pids.size(), static_cast<std::size_t>(RankCount(config.plan))) << result.message;
    for (const int pid : pids) EXPECT_EQ(worker::ProcessState(pid), '\0') << "process " << pid;
    EXPECT_EQ(worker::SharedMemory(), before);
    return result;
  }

  // Returns the step of the newest checkpoint that is complete; 0 if there is none.
  std::int64_t NewestCheckpoint() const {
    std::int64_t newest = 0;
    for (const auto& entry : std::filesystem::directory_iterator(Checkpoints())) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-") && !name.ends_with(".partial"))
        newest = std::max<std::int64_t>(newest, std::stoll(name.substr(5)));
    }
    return newest;
  }

  // Checks that a run continues from a checkpoint of at least `step`, and removes what was incomplete.
  void ExpectResumes(std::int64_t step) const {
    TrainConfig c = Config();
    c.resume_path = c.checkpoint_path;
    const std::int64_t newest = NewestCheckpoint();
    EXPECT_GE(newest, step);
    c.lr.steps = newest + 1;
    const worker::JobResult resumed = RunProcesses(c);
    ASSERT_EQ(resumed.outcome, v1::OUTCOME_MEASURED) << resumed.message;
    EXPECT_EQ(resumed.ranks.at(0).last.train_result().first_step(), newest);
    for (const auto& entry : std::filesystem::directory_iterator(Checkpoints()))
      EXPECT_FALSE(entry.path().string().ends_with(".partial")) << entry.path();
  }

  const TempDir directory_;
};

// Each rank in turn, after some steps. It first stops for a while, in which its peers issue what they can and
// wait for it. The outcome is the same wherever ranks are in their steps.
TEST_P(DyingRanks, KilledRankEndsItsJobAndIsNamed) {
  const auto ranks = static_cast<int>(RankCount(*ParsePlanText(GetParam().plan)));
  for (int victim = 0; victim < ranks; ++victim) {
    SCOPED_TRACE(::testing::Message() << "rank " << victim);
    if (GetParam().checkpoints) std::filesystem::remove_all(Checkpoints());
    const worker::JobResult result = Run(Config(), [&](std::int64_t step, const std::vector<int>& pids) {
      if (step < 2 + victim) return false;
      ::kill(pids.at(static_cast<std::size_t>(victim)), SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ::kill(pids.at(static_cast<std::size_t>(victim)), SIGKILL);
      return true;
    });
    EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
    EXPECT_EQ(result.failure, v1::FAILURE_KIND_PROCESS);
    EXPECT_FALSE(result.bad_input());
    EXPECT_EQ(result.first_failed_rank, victim);
    EXPECT_THAT(result.message, HasSubstr("rank " + std::to_string(victim) + ": killed by signal 9"));
    if (GetParam().checkpoints) ExpectResumes(1 + victim);
  }
}

// A rank finds an invalid token in the middle of the third step. It throws while its own transfers are in
// flight.
TEST_P(DyingRanks, ErrorInTheMiddleOfAStepEndsTheJob) {
  TrainConfig c = Config();
  const std::int64_t step = c.workload.global_batch * c.workload.seq_len;
  std::vector<std::uint16_t> tokens(static_cast<std::size_t>(4 * step), 1);
  const std::int64_t position = 2 * step + step / 2 + 4;
  tokens[static_cast<std::size_t>(position)] = 999;
  c.data_path = directory_.File("bad_token.u16");
  std::ofstream(c.data_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
  std::int64_t steps = 0;
  const worker::JobResult result = Run(c, [&](std::int64_t done, const std::vector<int>&) {
    steps = done;
    return false;
  });
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_TRUE(result.bad_input());
  EXPECT_THAT(result.message, HasSubstr("token 999 at position " + std::to_string(position)));
  if (GetParam().checkpoints) {
    EXPECT_EQ(NewestCheckpoint(), 2);
  }
}

std::string NameOf(const ::testing::TestParamInfo<Job>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Jobs, DyingRanks, ::testing::ValuesIn(kJobs), NameOf);

}  // namespace
}  // namespace autocfg::trainer
