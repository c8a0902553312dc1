#include "worker/launcher/process_launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "tests/support/missing_path.h"
#include "tests/worker/launch_helpers.h"
#include "worker/launcher/rank_link.h"
#include "worker/supervisor/children.h"

namespace autocfg::worker {
namespace {

using testing::HasSubstr;
using testing::Not;

// Runs the job and checks an invariant of every job: no process remains, not even a zombie.
JobResult RunJob(const JobRequest& request, LaunchHooks hooks = {}) {
  std::vector<int> pids;
  hooks.started = [&](const std::vector<int>& started) { pids = started; };
  JobResult result = ProcessLauncher(FakeTrainerPath()).Run(request, hooks);
  EXPECT_EQ(pids.size(), request.ranks.size());
  EXPECT_EQ(result.ranks.size(), request.ranks.size());
  for (int pid : pids) EXPECT_EQ(ProcessState(pid), '\0') << "process " << pid << " is still there";
  EXPECT_LT(result.wall_s, 50);  // the longest of these jobs takes 12 s; FakeJob limits each to 60 s
  return result;
}

JobResult RunModes(const std::vector<std::string>& modes) { return RunJob(FakeJob(modes)); }

TEST(ProcessLauncher, CollectsResults) {
  const JobResult result = RunModes({"ok", "ok", "ok"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
  EXPECT_EQ(result.message, "");
  EXPECT_EQ(result.first_failed_rank, -1);
  for (const RankEnd& rank : result.ranks) {
    EXPECT_TRUE(rank.finished);
    EXPECT_TRUE(rank.last.has_train_result());
    EXPECT_EQ(rank.exit_status, 0);
    EXPECT_EQ(rank.log_tail, "");
  }
}

TEST(ProcessLauncher, RelaysGatheringsAndProgress) {
  std::vector<int> steps(5);
  LaunchHooks hooks;
  hooks.progress = [&](int rank, const v1::Progress& progress) { EXPECT_EQ(progress.step(), ++steps[rank]); };
  const JobResult result = RunJob(FakeJob(std::vector<std::string>(5, "gather")), hooks);
  ASSERT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
  EXPECT_EQ(steps, std::vector<int>(5, 50));
  const double expected = 49 * (1 + 2 + 3 + 4 + 5) + 5.0 * 60'000;
  for (const RankEnd& rank : result.ranks) EXPECT_EQ(rank.last.train_result().losses(0), expected);
}

TEST(ProcessLauncher, StartsRanksWithNothingInherited) {
  // Left open intentionally, without close-on-exec; blocked and ignored signals likewise.
  const int inherited = ::open("/dev/null", O_RDONLY);
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, nullptr);
  auto* const old = ::signal(SIGPIPE, SIG_IGN);
  rlimit core{};
  ::getrlimit(RLIMIT_CORE, &core);
  const rlimit raised{core.rlim_max, core.rlim_max};
  ::setrlimit(RLIMIT_CORE, &raised);
  JobRequest request = FakeJob({"describe", "describe"});
  request.cores = {{0}, {0, 1}};
  const JobResult result = RunJob(request);
  ::setrlimit(RLIMIT_CORE, &core);
  ::signal(SIGPIPE, old);
  ::pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
  ::close(inherited);
  ASSERT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
  EXPECT_EQ(result.ranks[0].log_tail,
            "argument --launcher-fd=3\nargument --cpu-list=0\nSIGTERM blocked 0\nSIGPIPE ignored 0\ngroup "
            "leader 1\ncore limit 0\n");
  EXPECT_EQ(result.ranks[1].log_tail,
            "argument --launcher-fd=3\nargument --cpu-list=0,1\nSIGTERM blocked 0\nSIGPIPE ignored 0\ngroup "
            "leader 0\ncore limit 0\n");
}

TEST(ProcessLauncher, NamesTheRankThatWasKilled) {
  const JobResult result = RunModes({"hang", "hang", "kill", "hang"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_FALSE(result.bad_input());
  EXPECT_EQ(result.first_failed_rank, 2);
  EXPECT_THAT(result.message, HasSubstr("rank 2: killed by signal 9"));
  EXPECT_TRUE(WIFSIGNALED(result.ranks[2].exit_status));
  EXPECT_EQ(WTERMSIG(result.ranks[2].exit_status), SIGKILL);
  EXPECT_FALSE(result.ranks[0].finished);
  EXPECT_LT(result.wall_s, 10);
}

TEST(ProcessLauncher, NamesTheRankThatCrashed) {
  const JobResult result = RunModes({"segfault", "hang"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_FALSE(result.bad_input());
  EXPECT_THAT(result.message, HasSubstr("rank 0: killed by signal 11"));
}

TEST(ProcessLauncher, ReportsExitStatusAndLastLogLine) {
  const JobResult result = RunModes({"hang", "exit_5"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_FALSE(result.bad_input());
  EXPECT_EQ(result.message, "rank 1: exit status 5: the disk is full");
  EXPECT_THAT(result.ranks[1].log_tail, HasSubstr("first line"));
}

TEST(ProcessLauncher, InformationalLogLinesAreNotTheReason) {
  const JobResult result = RunModes({"hang", "kill_after_information"});
  EXPECT_EQ(result.message, "rank 1: killed by signal 9 (Killed): a word of its own");
  EXPECT_THAT(result.ranks[1].log_tail, HasSubstr("own kernels"));
}

TEST(ProcessLauncher, EndingWithoutAResultIsAFailure) {
  EXPECT_EQ(RunModes({"ok", "silent"}).message, "rank 1: ended without a result");
  const JobResult result = RunModes({"ok", "result_then_exit_7"});
  EXPECT_EQ(result.message, "rank 1: exit status 7 after its result");
  EXPECT_TRUE(result.ranks[0].finished);
  EXPECT_FALSE(result.ranks[1].finished);
}

TEST(ProcessLauncher, ErrorsDecideTheOutcome) {
  JobResult result = RunModes({"hang", "out_of_memory"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(result.message, "rank 1: 4096 bytes over");
  EXPECT_EQ(result.error.over_bytes(), 4096);
  EXPECT_TRUE(result.ranks[1].last.has_error());

  result = RunModes({"bad_input", "hang"});
  EXPECT_TRUE(result.bad_input());
  EXPECT_EQ(result.message, "rank 0: no such file x.json");  // one line

  EXPECT_TRUE(RunModes({"unimplemented"}).bad_input());
  result = RunModes({"internal"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_FALSE(result.bad_input());
}

TEST(ProcessLauncher, PeerErrorDoesNotHideTheCause) {
  const JobResult result = RunModes({"unavailable", "unavailable", "internal_late"});
  EXPECT_EQ(result.first_failed_rank, 2);
  EXPECT_EQ(result.message, "rank 2: the cause");
  EXPECT_EQ(RunModes({"unavailable", "kill"}).first_failed_rank, 1);
  EXPECT_EQ(RunModes({"abort", "kill_late"}).first_failed_rank, 1);  // UCX aborts if a peer is gone
  EXPECT_EQ(RunModes({"unavailable", "abort"}).first_failed_rank, 1);
  EXPECT_EQ(RunModes({"hang", "unavailable"}).message, "rank 1: a peer is gone");
}

TEST(ProcessLauncher, KillsRanksThatIgnoreTermination) {
  const JobResult result = RunModes({"hang_hard", "internal", "hang_hard"});
  EXPECT_EQ(result.message, "rank 1: a bug");
  EXPECT_LT(result.wall_s, 10);
}

TEST(ProcessLauncher, EnforcesTheTimeLimit) {
  JobRequest request = FakeJob({"hang", "hang_hard"});
  request.time_limit = std::chrono::milliseconds(300);
  const JobResult result = RunJob(request);
  EXPECT_EQ(result.outcome, v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(result.message, "not finished within the time limit of 0.3 s");
  EXPECT_GE(result.wall_s, 0.3);
}

// An exchange with the job's other workers may last as long as their coordinator is away.
TEST(ProcessLauncher, ExchangesDoNotCountTowardTheLimits) {
  JobRequest request = FakeJob({"gather_then_hang"});
  request.ranks.front().set_world_size(2);
  request.time_limit = std::chrono::seconds(8);
  request.stall_limit = std::chrono::seconds(3);
  int exchanges = 0;
  LaunchHooks hooks;
  hooks.progress = [](int, const v1::Progress&) {};
  hooks.exchange.run = [&](const std::string&, std::int64_t, const std::vector<std::string>& values) {
    if (++exchanges == 1) std::this_thread::sleep_for(std::chrono::seconds(9));
    return std::vector<std::string>{values.front(), "b"};
  };
  hooks.exchange.cancel = [] {};
  const JobResult result = RunJob(request, hooks);
  EXPECT_EQ(result.outcome, v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(result.message, "no progress for 3 s") << "the rank is silent after its last exchange";
  EXPECT_EQ(exchanges, 50);
}

// Each gathering of the first rank is followed by progress; then it is silent.
TEST(ProcessLauncher, EndsAJobWithoutProgress) {
  JobRequest request = FakeJob({"gather_then_hang", "gather_then_hang"});
  request.stall_limit = std::chrono::seconds(3);
  int progress = 0;
  LaunchHooks hooks;
  hooks.progress = [&](int, const v1::Progress&) { ++progress; };
  const JobResult result = RunJob(request, hooks);
  EXPECT_EQ(result.outcome, v1::OUTCOME_TIMED_OUT);
  EXPECT_EQ(result.message, "no progress for 3 s");
  EXPECT_EQ(progress, 2 * 50);
  EXPECT_GE(result.wall_s, 3);
}

TEST(ProcessLauncher, CanBeCancelled) {
  std::atomic<bool> cancel{false};
  LaunchHooks hooks;
  hooks.cancel = &cancel;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancel = true;
  });
  const JobResult result = RunJob(FakeJob({"hang", "hang"}), hooks);
  canceller.join();
  EXPECT_EQ(result.outcome, v1::OUTCOME_CANCELLED);
  EXPECT_EQ(result.message, "cancelled");
  EXPECT_EQ(result.first_failed_rank, -1);
}

TEST(ProcessLauncher, KeepsTheEndOfAFloodedLog) {
  const JobResult result = RunModes({"flood", "ok", "flood"});
  ASSERT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
  const std::string& log = result.ranks[2].log_tail;
  EXPECT_EQ(log.size(), kLogTailBytes);
  EXPECT_TRUE(log.ends_with(".\nthe end\n"));
}

TEST(ProcessLauncher, KillsProcessesThatRanksLeaveBehind) {
  const JobResult result = RunModes({"grandchild", "ok"});
  ASSERT_EQ(result.outcome, v1::OUTCOME_MEASURED) << result.message;
  const int grandchild = std::atoi(result.ranks[0].log_tail.c_str());
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(AllEndWithin({grandchild}, std::chrono::seconds(10)));
}

// A process in a session of its own, which ignores SIGTERM and whose parent has ended.
TEST(ProcessLauncher, EndsDaemonsThatRanksLeaveBehind) {
  for (const char* mode : {"daemon", "daemon_then_fail", "daemon_then_hang"}) {
    JobRequest request = FakeJob({mode, "ok"});
    if (mode == std::string("daemon_then_hang")) request.time_limit = std::chrono::seconds(3);
    pid_t daemon = -1;
    LaunchHooks hooks;
    hooks.progress = [&](int, const v1::Progress& progress) { daemon = static_cast<pid_t>(progress.step()); };
    const JobResult result = RunJob(request, hooks);
    ASSERT_GT(daemon, 0) << mode << ": " << result.message;
    EXPECT_EQ(ProcessState(daemon), '\0') << mode << ": it outlives its job";
  }
}

// Returns the processes that hold this file as their standard error.
std::vector<std::string> WritersOf(const std::string& file) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    if (std::filesystem::read_symlink(process.path() / "fd/2", error) == file)
      found.push_back(process.path());
  }
  return found;
}

TEST(ProcessLauncher, EndsProcessesThatStartOthersAndEnd) {
  const std::string mark = testing::TempDir() + "/chain_" + std::to_string(::getpid());
  JobRequest request = FakeJob({"chain"});
  request.ranks[0].mutable_train()->set_init_path(mark);
  EXPECT_EQ(RunJob(request).outcome, v1::OUTCOME_MEASURED);
  EXPECT_THAT(WritersOf(mark), testing::IsEmpty());
  ::unlink(mark.c_str());
}

// Checks that no descendant of this process is left.
void ExpectNothingLeft() { EXPECT_THAT(AllDescendants(1000), testing::IsEmpty()); }

TEST(ProcessLauncher, AJobWithTooManyProcessesIsKilled) {
  JobRequest request = FakeJob({"hang", "many_processes"});
  request.limits.processes = 20;
  const JobResult result = RunJob(request);
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN) << "it would fail again";
  EXPECT_THAT(result.message,
              testing::MatchesRegex("killed, because it had [0-9]+ processes, above its limit of 20; start "
                                    "fewer, or raise --job-processes of autocfg-worker"));
  ExpectNothingLeft();
}

TEST(ProcessLauncher, AJobThatTakesTooMuchMemoryIsKilled) {
  JobRequest request = FakeJob({"hang", "much_memory"});
  request.limits.memory_bytes = std::int64_t{256} << 20;
  const JobResult result = RunJob(request);
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN) << "it would fail again";
  EXPECT_THAT(
      result.message,
      testing::MatchesRegex("killed, because it had .* of private memory, above its limit of 256.0 MiB; "
                            "choose a plan that takes less, or raise --job-memory of autocfg-worker"));
  ExpectNothingLeft();
}

TEST(ProcessLauncher, AJobWithinItsLimitsGoesOn) {
  JobRequest request = FakeJob({"gather", "gather"});
  request.limits = {.processes = 3, .memory_bytes = std::int64_t{8} << 30};
  EXPECT_EQ(RunJob(request).outcome, v1::OUTCOME_MEASURED);
}

TEST(ProcessLauncher, DaemonsOfConcurrentJobsAreToldApart) {
  const std::string file = testing::TempDir() + "/launcher_test_" + std::to_string(::getpid());
  JobRequest request = FakeJob({"daemon_then_await_file"});
  request.ranks[0].mutable_train()->set_init_path(file);
  std::atomic<pid_t> daemon{0};
  LaunchHooks hooks;
  hooks.progress = [&](int, const v1::Progress& progress) { daemon = static_cast<pid_t>(progress.step()); };
  std::thread longer([&] { EXPECT_EQ(RunJob(request, hooks).outcome, v1::OUTCOME_MEASURED); });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (daemon == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(RunModes({"daemon"}).outcome, v1::OUTCOME_MEASURED);
  EXPECT_TRUE(Runs(daemon)) << "it is another job's";
  std::ofstream(file).put('x');
  longer.join();
  ::unlink(file.c_str());
  EXPECT_EQ(ProcessState(daemon), '\0');
}

TEST(ProcessLauncher, LeavesOtherChildrenOfTheProgramAlone) {
  const pid_t own = ::fork();
  if (own == 0) ::_exit(7);
  EXPECT_EQ(RunModes({"daemon"}).outcome, v1::OUTCOME_MEASURED);
  int status = 0;
  EXPECT_EQ(::waitpid(own, &status, 0), own) << "somebody else reaped it";
  EXPECT_EQ(WEXITSTATUS(status), 7);
  int is_subreaper = -1;
  EXPECT_EQ(::prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper), 0);
  EXPECT_EQ(is_subreaper, 0);
}

TEST(ProcessLauncher, WorksWhereChildrenAreReapedByThemselves) {
  auto* const before = ::signal(SIGCHLD, SIG_IGN);
  const JobResult result = RunModes({"ok", "kill"});
  ::signal(SIGCHLD, before);
  EXPECT_THAT(result.message, HasSubstr("rank 1: killed by signal 9"));
}

TEST(ProcessLauncher, RanksEndWithTheirSupervisor) {
  LaunchHooks hooks;
  hooks.progress = [&](int, const v1::Progress& progress) {
    ::kill(static_cast<pid_t>(progress.step()), SIGKILL);  // the daemon, which nothing would end
  };
  std::vector<int> pids;
  hooks.started = [&](const std::vector<int>& started) {
    pids = started;
    ::kill(ParentOf(pids.front()), SIGKILL);
  };
  const JobResult result = ProcessLauncher(FakeTrainerPath()).Run(FakeJob({"hang_hard", "hang_hard"}), hooks);
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_PROCESS);
  EXPECT_EQ(result.message, "rank 0: killed, because the supervisor of its job ended");
  EXPECT_TRUE(AllEndWithin(pids, std::chrono::seconds(10)));
}

TEST(ProcessLauncher, FloodOfADescendantDoesNotHoldTheJob) {
  EXPECT_EQ(RunModes({"flooding_grandchild", "ok"}).outcome, v1::OUTCOME_MEASURED);
}

TEST(ProcessLauncher, RejectsMessagesAboveTheLimit) {
  const JobResult result = RunModes({"hang", "huge_message"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN);
  EXPECT_EQ(
      result.message,
      "rank 1: its messages are invalid: a message of 200000000 bytes was announced, above the limit of "
      "65536");
}

TEST(ProcessLauncher, RejectsResultsBeyondTheJob) {
  JobResult result = RunModes({"too_many_steps"});
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN);
  EXPECT_THAT(result.message, HasSubstr("rank 0: its result has more losses than the job asked for: "));
  result = RunModes({"two_results"});
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN);
  EXPECT_EQ(result.message, "rank 0: it sent a second result");
  // Within the number of rows, beyond the bytes.
  JobRequest request = FakeJob({"endless_result"});
  request.ranks[0].mutable_train()->set_trace(true);
  request.ranks[0].mutable_train()->mutable_workload()->set_global_batch(1000);
  result = RunJob(request);
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN);
  EXPECT_THAT(result.message, HasSubstr("rank 0: its result has more bytes than the job asked for: "));
}

TEST(ProcessLauncher, RejectsGatheringsThatAreNotRead) {
  const JobResult result = RunModes({"endless_gathering"});
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_OWN);
  EXPECT_EQ(result.message, "rank 0: asks for two gatherings at once");
}

// Returns the most memory that this process has used, in kB; with `reset`, from now on.
std::int64_t PeakKilobytes(bool reset = false) {
  if (reset) std::ofstream("/proc/self/clear_refs") << "5";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atoll(line.c_str() + 6);
  }
  return -1;
}

TEST(ProcessLauncher, MemoryIsBoundedWhateverRanksSend) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps freed memory";
#endif
  RunModes({"ok"});
  const std::int64_t before = PeakKilobytes(/*reset=*/true);
  std::vector<std::thread> threads;
  for (const char* mode : {"huge_message", "endless_result", "endless_gathering", "flooding_grandchild"})
    threads.emplace_back([mode] { RunModes(std::vector<std::string>(4, mode)); });
  for (std::thread& thread : threads) thread.join();
  const std::int64_t grown = PeakKilobytes() - before;
  RecordProperty("kilobytes", static_cast<int>(grown));
  EXPECT_LT(grown, 40'000) << "kB, of 16 ranks that send without end";
}

TEST(ProcessLauncher, RejectsMalformedMessages) {
  const JobResult result = RunModes({"hang", "garbage"});
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_FALSE(result.bad_input());
  EXPECT_THAT(result.message, HasSubstr("rank 1: its messages are invalid"));
  EXPECT_EQ(RunModes({"internal_late", "close_and_hang"}).message, "rank 0: the cause");
}

TEST(ProcessLauncher, IncompletableGatheringFails) {
  EXPECT_EQ(RunModes({"ok", "gather_name"}).message,
            "rank 1: gathers 'name', but rank 0 has ended without it");
  EXPECT_EQ(RunModes({"gather_name", "gather_other_name"}).message,
            "rank 1: gathers 'other' where rank 0 gathers 'name'");
}

TEST(ProcessLauncher, ReportsStartFailure) {
  const JobResult result =
      ProcessLauncher(Missing("/nonexistent/autocfg-trainer")).Run(FakeJob({"ok", "ok"}));
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_FALSE(result.bad_input());
  EXPECT_EQ(result.message,
            Missing("rank 0: cannot start /nonexistent/autocfg-trainer: No such file or directory"));
}

TEST(ProcessLauncher, ReportsMissingSupervisor) {
  const JobResult result =
      ProcessLauncher(FakeTrainerPath(), Missing("/nonexistent/autocfg-supervisor")).Run(FakeJob({"ok"}));
  EXPECT_EQ(result.outcome, v1::OUTCOME_FAILED);
  EXPECT_EQ(result.failure, v1::FAILURE_KIND_PROCESS);
  EXPECT_EQ(result.message,
            Missing("cannot start /nonexistent/autocfg-supervisor: No such file or directory"));
}

TEST(ProcessLauncher, RejectsInvalidRequests) {
  ProcessLauncher launcher(FakeTrainerPath());
  EXPECT_TRUE(launcher.Run({}).bad_input());
  JobRequest request = FakeJob({"ok", "ok"});
  request.ranks[1].set_rank(0);
  EXPECT_TRUE(launcher.Run(request).bad_input());
  request = FakeJob({"ok", "ok"});
  request.cores = {{0}};
  EXPECT_TRUE(launcher.Run(request).bad_input());
}

TEST(ProcessLauncher, RunsJobsConcurrently) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 3; ++round) {
        if (i % 2 == 0) {
          EXPECT_EQ(RunModes({"gather", "gather"}).outcome, v1::OUTCOME_MEASURED);
        } else {
          EXPECT_EQ(RunModes({"hang", "kill"}).first_failed_rank, 1);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// kill -9 of the launcher: no rank survives it, not even one with an unread reply, and no daemon of a rank.
TEST(ProcessLauncher, RanksEndWithTheirLauncher) {
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    LaunchHooks hooks;
    const auto tell = [&](int pid) {
      if (::write(pipe[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    };
    hooks.started = [&](const std::vector<int>& pids) {
      ::usleep(200'000);  // lets replies arrive
      for (int pid : pids) tell(pid);
      tell(ParentOf(pids.front()));  // the supervisor
    };
    hooks.progress = [&](int, const v1::Progress& progress) { tell(static_cast<int>(progress.step())); };
    ProcessLauncher(FakeTrainerPath()).Run(FakeJob({"unread_reply", "daemon_then_hang", "hang_hard"}), hooks);
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::vector<int> pids(5);
  for (int& pid : pids) ASSERT_EQ(::read(pipe[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  ::close(pipe[0]);
  for (int pid : pids) EXPECT_TRUE(Runs(pid));
  ASSERT_EQ(::kill(launcher, SIGKILL), 0);
  ASSERT_EQ(::waitpid(launcher, nullptr, 0), launcher);
  EXPECT_TRUE(AllEndWithin(pids, std::chrono::seconds(10)));
}

TEST(FindTrainer, PrefersTheEnvironment) {
  const char* before = std::getenv("AUTOCFG_TRAINER");
  const std::string saved = before == nullptr ? "" : before;
  ::setenv("AUTOCFG_TRAINER", "/some/where", 1);
  EXPECT_EQ(FindTrainer(), "/some/where");
  ::unsetenv("AUTOCFG_TRAINER");
  EXPECT_THAT(FindTrainer(), HasSubstr("/autocfg-trainer"));
  EXPECT_THAT(FindTrainer(), Not(HasSubstr("exe")));
  if (before != nullptr) ::setenv("AUTOCFG_TRAINER", saved.c_str(), 1);
}

}  // namespace
}  // namespace autocfg::worker
