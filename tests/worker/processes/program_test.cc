// autocfg-worker as a process, with a fake coordinator.
#include "worker/program/program.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>

#include "tests/cli/program.h"
#include "tests/support/build_paths.h"
#include "tests/support/fake_nvml/fake_gpus.h"
#include "tests/support/missing_path.h"
#include "tests/worker/fake_coordinator.h"
#include "tests/worker/launch_helpers.h"

namespace autocfg::worker {
namespace {

class WorkerProgramTest : public testing::Test {
 protected:
  WorkerProgramTest() : address_("unix:" + (home_ / "socket")) {}

  std::vector<std::string> Arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"--coordinator", address_, "--name",  "test",
                                      "--devices",     "cpu",    "--slots", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::unique_ptr<ProgramProcess> Start(const std::vector<std::string>& words) const {
    return std::make_unique<ProgramProcess>(home_, words, "/dev/null", "autocfg-worker");
  }

  // Expects one line of error and no other output.
  void ExpectRefused(const std::vector<std::string>& words, int exit_code, const std::string& says) const {
    const Finished finished = Start(words)->Wait();
    EXPECT_EQ(finished.exit_code, exit_code) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
    EXPECT_TRUE(finished.err.starts_with("autocfg-worker: ")) << finished.err;
    EXPECT_NE(finished.err.find(says), std::string::npos) << finished.err;
  }

  static v1::Job Hanging(int ranks) {
    v1::Job job;
    job.set_name("studies/1/trials/1");
    job.set_ranks(ranks);
    job.set_device("cpu");
    job.set_time_limit_s(600);
    job.mutable_train()->mutable_model()->set_name("hang");
    return job;
  }
  // Waits until the running worker has `count` ranks.
  static std::vector<pid_t> AwaitRanks(const ProgramProcess& program, std::size_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::vector<pid_t> ranks;
    do {
      ranks = RanksOf(program.pid());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } while (ranks.size() != count && std::chrono::steady_clock::now() < end);
    EXPECT_EQ(ranks.size(), count) << program.err_so_far();
    return ranks;
  }

  const ScratchDirectory home_;
  const std::string address_;
  const ScopedVariable trainer_{"AUTOCFG_TRAINER", FakeTrainerPath()};
};

TEST_F(WorkerProgramTest, TellsWhenItMustGoAndEndsBefore) {
  FakeCoordinator coordinator(address_, 60);
  const auto program = Start(Arguments({"--until", "14s", "--until-grace", "7s"}));
  const double told_s = coordinator.AwaitPollOfOneThatLeaves().leaves_in_s();
  EXPECT_GE(told_s, 0);
  EXPECT_LE(told_s, 7) << "without the grace time";
  const Finished finished = program->Wait();
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(coordinator.deregistered());
  EXPECT_NE(finished.err.find("its time ends; it takes no more work\n"), std::string::npos) << finished.err;
}

TEST_F(WorkerProgramTest, EndsJobsThatStillRunWhenItMustGo) {
  FakeCoordinator coordinator(address_, 60);
  const std::string notice = home_ / "notice";
  const auto program = Start(Arguments({"--until-file", notice, "--until-grace", "2s"}));
  ASSERT_TRUE(coordinator.AwaitRegistrations(1)) << program->err_so_far();
  coordinator.Queue(Hanging(2));
  const std::vector<pid_t> ranks = AwaitRanks(*program, 2);
  std::ofstream(notice) << "3s\n";
  const Finished finished = program->Wait();
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(AllEnd(ranks, std::chrono::seconds(60)));
  EXPECT_TRUE(coordinator.deregistered());
  EXPECT_EQ(coordinator.reports(), 0) << "its job goes back to the queue at no cost";
  EXPECT_NE(finished.err.find("this worker must go at 20"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("its time is over; its jobs go back to the queue\n"), std::string::npos)
      << finished.err;
}

TEST_F(WorkerProgramTest, RunsUntilSignalled) {
  for (const int signal : {SIGTERM, SIGINT}) {
    FakeCoordinator coordinator(address_, 60);
    const auto program = Start(Arguments());
    ASSERT_TRUE(coordinator.AwaitRegistrations(1)) << program->err_so_far();
    coordinator.Queue(Hanging(2));
    const std::vector<pid_t> ranks = AwaitRanks(*program, 2);
    program->Signal(signal);
    const Finished finished = program->Wait();
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_TRUE(AllEnd(ranks, std::chrono::seconds(60)));
    EXPECT_TRUE(coordinator.deregistered()) << "that gives its job back";
    EXPECT_EQ(coordinator.reports(), 0);
    EXPECT_EQ(finished.out, "");
    EXPECT_NE(finished.err.find("autocfg-worker: registered with " + address_ +
                                " as workers/test: 2 slots on cpu\n"),
              std::string::npos)
        << finished.err;
    EXPECT_NE(finished.err.find("autocfg-worker: studies/1/trials/1, attempt 1: starts with 2 ranks\n"),
              std::string::npos)
        << finished.err;
    EXPECT_NE(finished.err.find("autocfg-worker: studies/1/trials/1, attempt 1: ended after "),
              std::string::npos)
        << finished.err;
    const std::string why = signal == SIGTERM ? "SIGTERM: ending\n" : "SIGINT: ending\n";
    EXPECT_NE(finished.err.find("autocfg-worker: " + why), std::string::npos) << finished.err;
  }
}

TEST_F(WorkerProgramTest, LogLevelFollowsTheEnvironment) {
  for (const auto& [level, says] : {std::pair<const char*, bool>{"info", true}, {"warn", false}}) {
    const ScopedVariable log("AUTOCFG_LOG", level);
    FakeCoordinator coordinator(address_, 60);
    const auto program = Start(Arguments());
    ASSERT_TRUE(coordinator.AwaitPollWith({})) << program->err_so_far();
    program->Signal(SIGTERM);
    const Finished finished = program->Wait();
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_EQ(finished.err.find("registered with") != std::string::npos, says)
        << level << ": " << finished.err;
  }
}

TEST_F(WorkerProgramTest, KillLeavesNoTrainerBehind) {
  FakeCoordinator coordinator(address_, 60);
  const auto program = Start(Arguments());
  coordinator.Queue(Hanging(2));
  const std::vector<pid_t> ranks = AwaitRanks(*program, 2);
  const auto start = std::chrono::steady_clock::now();
  program->Signal(SIGKILL);
  EXPECT_TRUE(AllEnd(ranks, std::chrono::seconds(60)));
  RecordProperty("milliseconds", static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                                      std::chrono::steady_clock::now() - start)
                                                      .count()));
  EXPECT_EQ(program->Wait().exit_code, 128 + SIGKILL);
}

TEST_F(WorkerProgramTest, DrainEndsWithSuccess) {
  FakeCoordinator coordinator(address_, 60);
  const auto program = Start(Arguments());
  ASSERT_TRUE(coordinator.AwaitPollWith({})) << program->err_so_far();
  coordinator.Drain();
  const Finished finished = program->Wait();
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_TRUE(coordinator.deregistered());
}

TEST_F(WorkerProgramTest, SupersededWorkerEndsWithAnError) {
  FakeCoordinator coordinator(address_, 60);
  const auto program = Start(Arguments());
  ASSERT_TRUE(coordinator.AwaitPollWith({})) << program->err_so_far();
  coordinator.Supersede("workers/test");
  const Finished finished = program->Wait();
  EXPECT_EQ(finished.exit_code, 1) << finished.err;
  EXPECT_NE(finished.err.find("workers/test: another worker has registered under this name"),
            std::string::npos)
      << finished.err;
  EXPECT_FALSE(coordinator.deregistered()) << finished.err;
}

TEST_F(WorkerProgramTest, WaitsForItsCoordinator) {
  const auto program = Start(Arguments({"--wait", "60s"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it has most likely tried by now
  FakeCoordinator coordinator(address_, 60);
  EXPECT_TRUE(coordinator.AwaitRegistrations(1)) << program->err_so_far();
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait().exit_code, 0);
}

TEST_F(WorkerProgramTest, RefusesAnInterfaceThatIsNotThere) {
  ExpectRefused(Arguments({"--interface", "no-such0"}), 2,
                "--interface: no network interface 'no-such0' is up with an address; expected ");
}

TEST_F(WorkerProgramTest, UnreachableCoordinatorErrorNamesTheAddress) {
  ExpectRefused(Arguments({"--wait", "0.2"}), 3, "cannot register workers/test with " + address_);
  ExpectRefused({"--coordinator", "127.0.0.1:1", "--name", "test", "--devices", "cpu", "--wait", "0.2"}, 3,
                "127.0.0.1:1: no coordinator answers there (");
  const auto program = Start(Arguments({"--wait", "1h"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  program->Signal(SIGTERM);  // either before signals are handled or during the wait
  const int exit_code = program->Wait().exit_code;
  EXPECT_TRUE(exit_code == 0 || exit_code == 128 + SIGTERM) << exit_code;
}

TEST_F(WorkerProgramTest, WaitsForACoordinatorThatIsFull) {
  FakeCoordinator coordinator(address_, 60);
  coordinator.FailRegistrations(3, grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto program = Start(Arguments({"--wait", "60s"}));
  ASSERT_TRUE(coordinator.AwaitPollWith({})) << program->err_so_far();
  EXPECT_EQ(coordinator.registrations().size(), 4u);
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait().exit_code, 0);
}

TEST_F(WorkerProgramTest, TransientErrorExitsWithARestartableCode) {
  FakeCoordinator coordinator(address_, 60);
  for (const auto code :
       {grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::PERMISSION_DENIED,
        grpc::StatusCode::DATA_LOSS, grpc::StatusCode::INTERNAL, grpc::StatusCode::UNKNOWN}) {
    coordinator.FailRegistrations(1'000'000, code);
    ExpectRefused(Arguments({"--wait", "0.3"}), kExitUnreachable, "not now");
  }
  coordinator.FailRegistrations(1, grpc::StatusCode::INVALID_ARGUMENT);
  ExpectRefused(Arguments(), kExitUsage, "not now");
  coordinator.FailRegistrations(1, grpc::StatusCode::UNIMPLEMENTED);
  ExpectRefused(Arguments(), kExitUsage, "not now");
}

TEST_F(WorkerProgramTest, ATokenOfAnotherRoleEndsItAtOnce) {
  FakeCoordinator coordinator(address_, 60);
  coordinator.FailRegistrations(1'000'000, grpc::StatusCode::PERMISSION_DENIED,
                                "a token with the role read may not call it; use one with the role worker");
  ExpectRefused(Arguments({"--wait", "1h"}), kExitUsage, "may not call it");
  coordinator.FailRegistrations(1'000'000, grpc::StatusCode::UNAUTHENTICATED, "the call has no token");
  ExpectRefused(Arguments({"--wait", "1h"}), kExitUsage, "the call has no token");
  EXPECT_EQ(coordinator.registrations().size(), 2u);
}

TEST_F(WorkerProgramTest, GoesOnWhileItsTokenIsRefused) {
  const std::string file = home_.Write("nodes.token", "autocfg_1\n");
  FakeCoordinator coordinator(address_, 60);
  const auto program = Start(Arguments({"--token-file", file}));
  ASSERT_TRUE(coordinator.AwaitPollWith({})) << program->err_so_far();
  coordinator.FailPolls({grpc::StatusCode::UNAUTHENTICATED, "the token has expired"});
  const std::string refused = "workers/test: the coordinator refuses this worker's token of " + file;
  const auto said = [&](const std::string& words) {
    return program->err_so_far().find(words) != std::string::npos;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!said(refused) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(said(refused + "; what runs goes on")) << program->err_so_far();
  EXPECT_TRUE(said("(the token has expired)")) << program->err_so_far();
  EXPECT_FALSE(said("no answer from the coordinator")) << "it has answered";
  coordinator.FailPolls(grpc::Status::OK);
  ASSERT_TRUE(coordinator.AwaitPollWith({})) << program->err_so_far();
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait().exit_code, 0);
}

TEST(WorkerExitCodes, InternalErrorDiffersFromSuperseded) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(CatchingAll([]() -> int { throw std::runtime_error("a bug"); }), kExitInternal);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "autocfg-worker: internal error: a bug; please report it\n");
  EXPECT_EQ(CatchingAll([] { return kExitDone; }), kExitDone);
}

// The worker's unit lists exactly these codes as those that do not restart it.
TEST(WorkerExitCodes, MatchTheSystemdUnit) {
  std::ifstream unit(SourcePath("deploy/systemd/autocfg-worker.service"));
  std::vector<std::string> settings;
  for (std::string line; std::getline(unit, line);) {
    if (line.starts_with("Restart")) settings.push_back(line);
  }
  EXPECT_EQ(settings, (std::vector<std::string>{
                          "Restart=on-failure", "RestartSec=2",
                          fmt::format("RestartPreventExitStatus={} {}", kExitSuperseded, kExitUsage)}));
}

TEST_F(WorkerProgramTest, BadUsage) {
  ExpectRefused({}, 2, "--coordinator");
  ExpectRefused({"--coordinator", "node1.example.org:7010"}, 2, "--insecure");
  ExpectRefused(Arguments({"--no-such-option"}), 2, "--no-such-option");
  ExpectRefused({"--coordinator", address_, "--devices", "tpu"}, 2, "--devices: unknown value 'tpu'");
  ExpectRefused({"--coordinator", address_, "--devices", "cpu:999999"}, 2, "core 999999 does not exist");
  ExpectRefused({"--coordinator", address_, "--slots", "many"}, 2, "--slots");
  const ScopedVariable missing("AUTOCFG_TRAINER", Missing("/nonexistent/trainer"));
  ExpectRefused(Arguments(), 2, Missing("/nonexistent/trainer: the training engine is missing"));
}

TEST_F(WorkerProgramTest, PrintsHelpAndVersion) {
  const Finished version = Start({"--version"})->Wait();
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(version.out.starts_with("autocfg-worker ")) << version.out;
  EXPECT_EQ(version.err, "");
  for (const char* option : {"--help", "--version"}) {
    const std::string command =
        fmt::format("{} {} >/dev/full 2>/dev/null", BuildPath("bin/autocfg-worker"), option);
    EXPECT_EQ(std::system(command.c_str()), kExitUsage << 8) << option;
  }
  const Finished help = Start({"--help"})->Wait();
  EXPECT_EQ(help.exit_code, 0);
  for (const char* option : {"--coordinator", "--devices", "--slots", "--name", "--data-dir", "--save-dir",
                             "--insecure", "--wait", "--version"})
    EXPECT_NE(help.out.find(option), std::string::npos) << option;
}

}  // namespace
}  // namespace autocfg::worker
