// Tests UCX between processes, and that nothing remains if they are killed during communication.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "tests/worker/launch_helpers.h"

namespace autocfg::trainer {
namespace {

using testing::HasSubstr;
using worker::SharedMemory;

TEST(UcxProcesses, ReduceMoreRanksThanCores) {
  const auto before = SharedMemory();
  for (int size : {2, 5, 8}) {
    const worker::JobResult result = worker::ProcessLauncher(worker::FakeTrainerPath())
                                         .Run(worker::FakeJob(std::vector<std::string>(size, "reduce")));
    ASSERT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
    for (const worker::RankEnd& rank : result.ranks) {
      EXPECT_EQ(rank.last.train_result().losses(0), size * (size + 1) / 2);
      EXPECT_EQ(rank.log_tail, "");  // UCX logs nothing
    }
  }
  EXPECT_EQ(SharedMemory(), before);
}

// Starts ranks that reduce without end, and calls `strike` with their pids when all are in the middle of a
// reduction.
worker::JobResult StrikeInTheMiddle(int size,
                                    const std::function<void(const std::vector<int>& pids)>& strike) {
  std::vector<int> pids;
  int under_way = 0;
  worker::LaunchHooks hooks;
  hooks.started = [&](const std::vector<int>& started) { pids = started; };
  hooks.progress = [&](int, const v1::Progress&) {
    if (++under_way == size) strike(pids);
  };
  const auto before = SharedMemory();
  worker::JobResult result =
      worker::ProcessLauncher(worker::FakeTrainerPath())
          .Run(worker::FakeJob(std::vector<std::string>(size, "reduce_forever")), hooks);
  EXPECT_EQ(under_way, size) << result.message;
  for (int pid : pids) EXPECT_EQ(worker::ProcessState(pid), '\0') << "process " << pid << " is still there";
  EXPECT_EQ(SharedMemory(), before);
  return result;
}

TEST(UcxProcesses, DeadRankEndsTheJobAndIsNamed) {
  for (int victim : {0, 2}) {
    const worker::JobResult result =
        StrikeInTheMiddle(4, [&](const std::vector<int>& pids) { ::kill(pids[victim], SIGKILL); });
    EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
    EXPECT_FALSE(result.bad_input());
    EXPECT_EQ(result.first_failed_rank, victim);
    EXPECT_THAT(result.message, HasSubstr("rank " + std::to_string(victim) + ": killed by signal 9"));
    EXPECT_LT(result.wall_s, 20);
  }
}

TEST(UcxProcesses, KillingAllAtOnceLeavesNothing) {
  const worker::JobResult result = StrikeInTheMiddle(4, [](const std::vector<int>& pids) {
    for (int pid : pids) ::kill(pid, SIGKILL);
  });
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_FALSE(result.bad_input());
  EXPECT_THAT(result.message, HasSubstr("killed by signal 9"));
}

TEST(UcxProcesses, CancelledJobLeavesNothing) {
  std::atomic<bool> cancel{false};
  worker::LaunchHooks hooks;
  hooks.cancel = &cancel;
  hooks.progress = [&](int, const v1::Progress&) { cancel = true; };
  const auto before = SharedMemory();
  const worker::JobResult result =
      worker::ProcessLauncher(worker::FakeTrainerPath())
          .Run(worker::FakeJob(std::vector<std::string>(3, "reduce_forever")), hooks);
  EXPECT_EQ(result.outcome, v1::OUTCOME_CANCELLED);
  EXPECT_EQ(SharedMemory(), before);
}

}  // namespace
}  // namespace autocfg::trainer
