// Repeated kill -9 during writes: all acknowledged data survives, and the file is intact. The writer is this
// program started anew, because a fork of a multi-threaded process may not continue safely.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/store/study_edits.h"
#include "tests/support/temp_dir.h"

extern char** environ;  // NOLINT: the name is POSIX's

namespace autocfg::server {
namespace {

constexpr const char* kPathVariable = "AUTOCFG_CRASH_TEST_DB";

// The writer: enqueues, leases and reports trials, and prints what the store acknowledged. Runs until killed.
TEST(StoreCrash, DISABLED_Writer) {
  const char* path = ::getenv(kPathVariable);
  ASSERT_NE(path, nullptr);
  auto store = OpenSqliteStore(path);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto say = [](const std::string& line) {
    if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(1);
  };
  v1::RegisterWorkerRequest worker;
  worker.set_worker("workers/a");
  worker.set_boot_id(fmt::format("{}", ::getpid()));
  worker.mutable_inventory()->set_slots(100);
  const auto epoch = (*store)->RegisterWorker(worker, 1);
  ASSERT_TRUE(epoch.ok());
  for (int round = 0;; ++round) {
    v1::Study study;
    study.set_fingerprint("f");
    const auto made = (*store)->CreateStudy(fmt::format("{}-{}", ::getpid(), round), study, 1);
    ASSERT_TRUE(made.ok()) << made.status();
    const std::int64_t id = *ParseStudyName(made->name());
    say(fmt::format("study {}\n", id));
    ASSERT_TRUE(SetStudyState(**store, id, v1::STUDY_STATE_RUNNING).ok());
    for (int i = 0; i < 5; ++i) {
      v1::Trial trial;
      trial.set_plan_text(fmt::format("mbs={}", i));
      v1::Job job;
      job.set_ranks(1);
      job.mutable_train()->set_steps(1);
      job.mutable_train()->set_data_path(std::string(3000, 'd'));
      const auto queued = (*store)->EnqueueTrial(id, trial, job, 100);
      ASSERT_TRUE(queued.ok());
      say(fmt::format("trial {} {}\n", id, i + 1));
      const auto leased = (*store)->LeaseJobs({{"workers/a", *epoch}}, {}, 1, 1e9);
      ASSERT_TRUE(leased.ok() && leased->leases.size() == 1) << leased.status();
      const Lease* const lease = &leased->leases[0];
      v1::ReportTrialRequest report;
      report.set_worker("workers/a");
      report.set_session_epoch(*epoch);
      report.set_lease_id(lease->lease_id);
      report.set_fencing_token(lease->fencing_token);
      report.set_attempt(lease->attempt);
      report.set_request_id(lease->lease_id);
      report.set_outcome(v1::OUTCOME_MEASURED);
      report.mutable_measurement()->add_step_time_s(1);
      ASSERT_TRUE((*store)->Report(report, 2).ok());
      say(fmt::format("measured {} {}\n", lease->key.study, lease->key.trial));
    }
  }
}

// Starts the writer, reads `lines` acknowledgements and kills it at an arbitrary point. Appends its output to
// `said`.
void WriteAndKill(const std::string& path, int lines, std::vector<std::string>& said) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  std::vector<std::string> arguments = {"/proc/self/exe", "--gtest_also_run_disabled_tests",
                                        "--gtest_filter=StoreCrash.DISABLED_Writer"};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  ASSERT_EQ(::setenv(kPathVariable, path.c_str(), 1), 0);
  const int failed = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  ASSERT_EQ(failed, 0);
  std::string text;
  int seen = 0;
  bool killed = false;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t n = ::read(pipe[0], buffer.data(), buffer.size());
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(n));
    seen = 0;
    for (std::size_t at = 0; (at = text.find("measured", at)) != std::string::npos; ++at) ++seen;
    if (seen >= lines && !killed) {
      ::kill(child, SIGKILL);  // output written before the kill is still read
      killed = true;
    }
  }
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << text;
  std::size_t start = 0;
  for (std::size_t end = 0; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    said.push_back(text.substr(start, end - start));
  }
}

TEST(StoreCrash, AcknowledgedWritesSurvive) {
  TempDir dir;
  const std::string path = dir.File("crash.db");
  std::vector<std::string> said;
  for (int round = 0; round < 8; ++round) {
    ASSERT_NO_FATAL_FAILURE(WriteAndKill(path, 3 + 7 * round, said));
    auto store = OpenSqliteStore(path);
    ASSERT_TRUE(store.ok()) << store.status();
    int checked = 0;
    for (const std::string& line : said) {
      long long study = 0;
      long long trial = 0;
      if (std::sscanf(line.c_str(), "study %lld", &study) == 1) {
        EXPECT_TRUE((*store)->GetStudy(study).ok()) << line;
      } else if (std::sscanf(line.c_str(), "trial %lld %lld", &study, &trial) == 2) {
        EXPECT_TRUE((*store)->GetTrial(study, trial).ok()) << line;
      } else if (std::sscanf(line.c_str(), "measured %lld %lld", &study, &trial) == 2) {
        const auto read = (*store)->GetTrial(study, trial);
        ASSERT_TRUE(read.ok()) << line;
        EXPECT_EQ(read->state(), v1::TRIAL_STATE_MEASURED) << line;
        EXPECT_TRUE(read->has_measured()) << line;
      } else {
        continue;  // lines of the test framework
      }
      ++checked;
    }
    EXPECT_GE(checked, 3 + 7 * round);
    store->reset();
    SQLite::Database db(path, SQLite::OPEN_READWRITE);
    EXPECT_EQ(db.execAndGet("PRAGMA integrity_check").getString(), "ok");
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM pragma_foreign_key_check").getInt(), 0);
    // Trial, attempt and measurement are consistent: each exists only with the others.
    EXPECT_EQ(
        db
            .execAndGet(fmt::format(
                "SELECT count(*) FROM trials t WHERE (t.state = {0}) <> EXISTS (SELECT 1 FROM jobs j "
                "JOIN attempts a ON a.job = j.id AND a.state = {0} JOIN measurements m ON m.job = a.job "
                "AND m.attempt = a.number WHERE j.study = t.study AND j.trial = t.number)",
                static_cast<int>(v1::TRIAL_STATE_MEASURED)))
            .getInt(),
        0);
  }
}

}  // namespace
}  // namespace autocfg::server
