#include "worker/engines/engine_run.h"

#include <sys/stat.h>

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/program.h"
#include "tests/support/missing_path.h"
#include "tests/worker/engines/engine_texts.h"
#include "tests/worker/launch_helpers.h"

namespace autocfg::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class EngineRunTest : public testing::Test {
 protected:
  // Runs each script as a rank.
  EngineRunResult Run(const std::vector<std::string>& scripts, const EngineLimits& limits = {},
                      bool ranks = true) {
    EngineRun run{.processes = {},
                  .rules = rules_,
                  .size = {},
                  .limits = limits,
                  .time_limit = std::chrono::seconds(60),
                  .spans_workers = spans_,
                  .supervisor_path = FindSupervisor(),
                  .job_limits = job_limits_};
    for (const std::string& script : scripts) {
      EngineProcess& process = run.processes.emplace_back();
      process.command = {{"/bin/sh", "-c", script}, {"WORD=value"}, true, home_.path()};
      process.rank = ranks ? static_cast<int>(run.processes.size()) - 1 : -1;
    }
    return RunEngine(run, &cancel_, [this](const std::vector<int>& pids) { pids_ = pids; });
  }

  const ScratchDirectory home_;
  const LogRules rules_ = *ParseLogRules(GoodEngine()["log"]);
  std::atomic<bool> cancel_{false};
  bool spans_ = false;
  JobLimits job_limits_;
  std::vector<int> pids_;
};

TEST_F(EngineRunTest, ReadsBothStreamsInItsDirectory) {
  const EngineRunResult result =
      Run({"echo step 1 time 3 ms; echo step 2 time $(pwd) $WORD >&2; echo step 3 time 4 ms >&2"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
  ASSERT_EQ(result.logs.size(), 1u);
  EXPECT_THAT(result.logs[0].TimedSteps(0, 9), ElementsAre(0.003, 0.004));
  EXPECT_THAT(result.logs[0].tail(), HasSubstr("time " + home_.path() + " value"));
  EXPECT_GT(result.wall_s, 0);
}

TEST_F(EngineRunTest, TheFirstFailureIsTold) {
  EngineRunResult result = Run({"sleep 60", "echo ValueError: wrong shape; echo done; exit 3"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN);
  EXPECT_EQ(result.message, "rank 1: wrong shape");
  EXPECT_FALSE(Runs(pids_[0]));
  result = Run({"echo the last words; exit 3"});
  EXPECT_EQ(result.message, "rank 0: exit status 3: the last words");
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN);
  result = Run({"kill -SEGV $$"}, {}, /*ranks=*/false);
  EXPECT_THAT(result.message, HasSubstr("killed by signal 11"));
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_PROCESS);
  result = Run({"echo Error: the peer is gone; exit 1"});
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_PEER);
  // A rank that lost its peer ends first; the peer's own error comes a moment later.
  result = Run({"until test -e one; do sleep 0.01; done; echo Error: the peer is gone; exit 1",
                "touch one; sleep 0.1; echo TypeError: the cause; exit 1"});
  EXPECT_EQ(result.message, "rank 1: the cause");
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN);
}

TEST_F(EngineRunTest, OutOfMemoryByWordsOrByStatus) {
  EngineRunResult result = Run({"echo CUDA out of memory; exit 1"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(result.message, "rank 0: CUDA out of memory");
  result = Run({"exit 17"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_THAT(result.message, HasSubstr("exit status 17"));
  result = Run({"echo out of memory, trying again; exit 0"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_MEASURED) << "it went on";
  result = Run({"until test -e two; do sleep 0.01; done; echo IndexError: peers; exit 1",
                "touch two; sleep 0.1; echo out of memory; exit 1"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_OUT_OF_MEMORY) << "the cause of the other end";
}

TEST_F(EngineRunTest, HangsEndByTheirLimitWithEvidence) {
  using Seconds = std::chrono::duration<double>;
  EngineRunResult result = Run({"echo hello; sleep 60", "sleep 60"}, {.start = Seconds(3)});
  EXPECT_EQ(result.outcome, v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(result.message, "no step within start_s, 3 s; rank 1 wrote nothing to its log");
  result = Run({"echo step 1 time 1 ms; sleep 60"}, {.stall = Seconds(0.4)}, /*ranks=*/false);
  EXPECT_EQ(result.outcome, v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(result.message,
            "no step and no end within stall_s, 0.4 s; the last line of its log: step 1 time 1 ms");
  result = Run({"while :; do echo step 1 time 1 ms; sleep 0.05; done"}, {.run = Seconds(0.5)});
  EXPECT_EQ(result.outcome, v1::OUTCOME_TIMED_OUT);
  EXPECT_THAT(result.message, HasSubstr("not finished within run_s, 0.5 s"));
  spans_ = true;  // another node may tell of the steps
  result = Run({"sleep 0.6"}, {.start = Seconds(0.2)});
  EXPECT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
}

// SIGTERM ignored, by a child in a session of its own too: all are killed.
TEST_F(EngineRunTest, NothingOutlivesARunThatIgnoresTermination) {
  const std::string script =
      "trap '' TERM; setsid sh -c \"trap '' TERM; echo $$ >child; while :; do sleep 0.1; done\" & "
      "while :; do sleep 0.1; done";
  std::thread cancels([this] {
    while (!std::filesystem::exists(home_ / "child"))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cancel_ = true;
  });
  const EngineRunResult result = Run({script});
  cancels.join();
  EXPECT_EQ(result.outcome, v1::OUTCOME_CANCELLED);
  ASSERT_EQ(pids_.size(), 1u);
  EXPECT_FALSE(Runs(pids_[0]));
  for (const pid_t pid : Descendants(::getpid())) EXPECT_FALSE(Runs(pid)) << pid;
}

TEST_F(EngineRunTest, ACommandThatTakesMoreThanAJobMayIsKilled) {
  job_limits_.processes = 8;
  EngineRunResult result = Run({"for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 60 & done; trap '' TERM; wait"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN);
  EXPECT_THAT(result.message,
              testing::MatchesRegex("killed, because it had [0-9]+ processes, above its limit of 8; start "
                                    "fewer, or raise --job-processes of autocfg-worker"));
  EXPECT_THAT(Descendants(::getpid()), testing::IsEmpty());
  job_limits_ = {.memory_bytes = 64 << 20};
  // tail keeps the last line of its input, which has no line break, until the input's end.
  result = Run({"head -c 200M /dev/zero | tail -n 1 | sleep 60"}, {}, /*ranks=*/false);
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN);
  EXPECT_THAT(result.message, HasSubstr("of private memory, above its limit of 64.0 MiB; choose a plan"));
  EXPECT_THAT(Descendants(::getpid()), testing::IsEmpty());
}

TEST_F(EngineRunTest, AProgramThatCannotStartIsTold) {
  EngineRun run{.processes = {{.command = {{Missing("/nonexistent")}, {}, true, home_.path()}}},
                .rules = rules_,
                .size = {},
                .limits = {},
                .supervisor_path = FindSupervisor()};
  EngineRunResult result = RunEngine(run, nullptr);
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_PROCESS);
  EXPECT_THAT(result.message, HasSubstr(Missing("/nonexistent")));
  run.processes[0].command = {{"/bin/sh"}, {}, true, Missing("/nonexistent/directory")};
  EXPECT_EQ(RunEngine(run, nullptr).outcome, v1::OUTCOME_FAILED);
  run.supervisor_path = "/no/supervisor";
  EXPECT_THAT(RunEngine(run, nullptr).message, HasSubstr("/no/supervisor"));
}

TEST(EngineVersions, AreWhatTheirCommandsPrint) {
  const auto engine_with = [](const std::string& script) {
    nlohmann::ordered_json json = GoodEngine();
    json["version"] = {{"command", {"/bin/sh", "-c", script}}};
    return std::vector<EngineFile>{*ParseEngineFile(json.dump(), "/")};
  };
  auto engines = engine_with("echo '  2.1 beta '; echo more");
  ASSERT_TRUE(ReadEngineVersions(engines, FindSupervisor()).ok());
  EXPECT_EQ(engines[0].version, "2.1 beta");
  engines = engine_with("echo no torch >&2; exit 1");
  EXPECT_EQ(
      std::string(ReadEngineVersions(engines, FindSupervisor()).message()),
      "engine toy: version: the command failed: exit status 1: no torch; correct it, or give the version as "
      "a text");
  engines = engine_with("exit 0");
  EXPECT_THAT(std::string(ReadEngineVersions(engines, FindSupervisor()).message()),
              HasSubstr("printed no line"));
}

}  // namespace
}  // namespace autocfg::worker
