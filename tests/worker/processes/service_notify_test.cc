// What autocfg-worker tells systemd as a service of Type=notify.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/program.h"
#include "tests/support/notify_socket.h"
#include "tests/support/scoped_variable.h"
#include "tests/worker/fake_coordinator.h"
#include "tests/worker/launch_helpers.h"

namespace autocfg::worker {
namespace {

class WorkerNotify : public testing::Test {
 protected:
  WorkerNotify()
      : address_("unix:" + (home_ / "socket")),
        systemd_(home_ / "notify"),
        socket_("NOTIFY_SOCKET", home_ / "notify"),
        limit_("WATCHDOG_USEC", "400000") {}

  std::unique_ptr<ProgramProcess> Start(const std::string& wait = "60s",
                                        const std::string& heartbeat = "heartbeat") const {
    const std::vector<std::string> words = {"--coordinator", address_, "--name",      "test",
                                            "--devices",     "cpu",    "--slots",     "2",
                                            "--wait",        wait,     "--heartbeat", home_ / heartbeat};
    return std::make_unique<ProgramProcess>(home_, words, "/dev/null", "autocfg-worker");
  }

  static void AwaitFile(const std::filesystem::path& file) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!std::filesystem::exists(file)) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  const ScratchDirectory home_;
  const std::string address_;
  const NotifySocket systemd_;
  const ScopedVariable socket_;
  const ScopedVariable limit_;
  const ScopedVariable nobody_{"WATCHDOG_PID", std::nullopt};
  const ScopedVariable trainer_{"AUTOCFG_TRAINER", FakeTrainerPath()};
};

TEST_F(WorkerNotify, IsReadyOnceItIsRegisteredAndSaysThatItEnds) {
  EXPECT_EQ(Start("100ms")->Wait().exit_code, 3);
  EXPECT_EQ(systemd_.Forget(), 0) << "no coordinator answers";
  FakeCoordinator coordinator(address_, 60);
  const auto program = Start();
  EXPECT_EQ(systemd_.NextWord(),
            "READY=1\nSTATUS=registered with " + address_ + " as workers/test: 2 slots on cpu");
  EXPECT_TRUE(coordinator.AwaitRegistrations(1));
  program->Signal(SIGTERM);
  EXPECT_EQ(systemd_.NextWord(), "STOPPING=1\nSTATUS=ending; its jobs go back to the queue");
  EXPECT_EQ(program->Wait().exit_code, 0);
}

TEST_F(WorkerNotify, PingsOnlyWhileItAsksForWorkAlsoIfNobodyAnswers) {
  std::optional<FakeCoordinator> coordinator(std::in_place, address_, 60);
  const auto program = Start();
  EXPECT_TRUE(systemd_.NextWord().starts_with("READY=1")) << program->err_so_far();
  coordinator.reset();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(systemd_.Next(), "WATCHDOG=1");
  const pid_t watchdog = ThreadNamed(program->pid(), "watchdog");
  {
    const HungThread hung(ThreadNamed(program->pid(), "lease-loop"));
    if (!hung.allowed()) GTEST_SKIP() << "threads of other processes cannot be stopped here";
    AwaitWaits(watchdog, 2);  // a ping for the last round may be under way
    systemd_.Forget();
    AwaitWaits(watchdog, 8);
    EXPECT_EQ(systemd_.Forget(), 0);
  }
  EXPECT_EQ(systemd_.Next(), "WATCHDOG=1");
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait().exit_code, 0);
}

TEST_F(WorkerNotify, PingsWhileADrainedWorkerFinishesItsJobs) {
  FakeCoordinator coordinator(address_, 60);
  const auto program = Start();
  v1::Job job;
  job.set_name("studies/1/trials/1");
  job.set_ranks(2);
  job.set_device("cpu");
  job.set_time_limit_s(600);
  job.mutable_train()->mutable_model()->set_name("hang");
  coordinator.Queue(job);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (RanksOf(program->pid()).size() != 2 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  coordinator.Drain();
  while (program->err_so_far().find("drained") == std::string::npos && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  systemd_.Forget();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(systemd_.Next(), "WATCHDOG=1") << program->err_so_far();
  EXPECT_EQ(RanksOf(program->pid()).size(), 2u);
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait().exit_code, 0);
}

TEST_F(WorkerNotify, TheHeartbeatIsThereFromTheRegistrationToTheEnd) {
  const std::filesystem::path file = home_ / "heartbeat";
  std::ofstream(file) << "of an earlier worker";
  EXPECT_EQ(Start("100ms")->Wait().exit_code, 3);
  EXPECT_FALSE(std::filesystem::exists(file)) << "it never was registered";
  const Finished wrong = Start("100ms", "no/file")->Wait();
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("autocfg-worker: --heartbeat: "), std::string::npos) << wrong.err;

  std::optional<FakeCoordinator> coordinator(std::in_place, address_, 60);
  const auto program = Start();
  ASSERT_NE(ThreadNamed(program->pid(), "heartbeat"), 0) << program->err_so_far();
  EXPECT_TRUE(std::filesystem::exists(file));
  std::filesystem::remove(file);
  coordinator.reset();  // the worker asks again and again
  AwaitFile(file);
  {
    const HungThread hung(ThreadNamed(program->pid(), "lease-loop"));
    if (!hung.allowed()) GTEST_SKIP() << "threads of other processes cannot be stopped here";
    const pid_t heartbeat = ThreadNamed(program->pid(), "heartbeat");
    AwaitWaits(heartbeat, 2);  // a round before may still be told of
    std::filesystem::remove(file);
    AwaitWaits(heartbeat, 2);
    EXPECT_FALSE(std::filesystem::exists(file)) << "the loop hangs";
  }
  AwaitFile(file);
  program->Signal(SIGTERM);
  EXPECT_EQ(program->Wait().exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace autocfg::worker
