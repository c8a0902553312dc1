#include "base/service/service_manager.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/notify_socket.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/temp_dir.h"

namespace autocfg::base {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr const char* kLimit = "40000";  // microseconds

class ServiceManagerTest : public testing::Test {
 protected:
  ServiceManagerTest() : systemd_(dir_.File("s")), socket_("NOTIFY_SOCKET", dir_.File("s")) {}

  // Returns loops of which the first makes a round at every look, and the second if it is not stuck.
  std::vector<LoopRounds> Rounds() {
    ++looks_;
    if (!stuck_) ++second_;
    return {{"first", looks_}, {"second", second_}};
  }
  void AwaitLooks(std::uint64_t count) const {
    const std::uint64_t target = looks_ + count;
    while (looks_ < target) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  TempDir dir_;
  const NotifySocket systemd_;
  const ScopedVariable socket_;
  const ScopedVariable nobody_{"WATCHDOG_PID", std::nullopt};
  std::atomic<std::uint64_t> looks_ = 0;
  std::atomic<std::uint64_t> second_ = 0;
  std::atomic<bool> stuck_ = false;
};

TEST_F(ServiceManagerTest, SaysWhenItIsReadyAndWhenItEnds) {
  ServiceManager manager;
  EXPECT_EQ(systemd_.Forget(), 0);
  manager.Ready("listening\non a port");
  EXPECT_EQ(systemd_.Next(), "READY=1\nSTATUS=listening on a port");
  manager.Stopping("ending");
  EXPECT_EQ(systemd_.Next(), "STOPPING=1\nSTATUS=ending");
  manager.Stopping("again");
  manager.Ready("again");
  EXPECT_EQ(systemd_.Forget(), 0);
}

TEST_F(ServiceManagerTest, SaysNothingWithoutSystemd) {
  const ScopedVariable none("NOTIFY_SOCKET", std::nullopt);
  ServiceManager manager;
  manager.Ready("ready");
  manager.WatchLoops([&] { return Rounds(); });
  manager.Stopping("ending");
  EXPECT_EQ(looks_, 0u) << "nobody asked for pings";
  EXPECT_EQ(systemd_.Forget(), 0);
}

TEST_F(ServiceManagerTest, ASocketThatIsGoneIsLogged) {
  const ScopedVariable gone("NOTIFY_SOCKET", dir_.File("gone"));
  testing::internal::CaptureStdout();
  ServiceManager manager;
  manager.Ready("ready");
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("systemd cannot be told 'READY=1': No such file or directory"));
}

TEST_F(ServiceManagerTest, PingsOnlyWhileEveryLoopGoesOn) {
  const ScopedVariable limit("WATCHDOG_USEC", kLimit);
  testing::internal::CaptureStdout();
  {
    ServiceManager manager;
    manager.WatchLoops([&] { return Rounds(); });
    for (int i = 0; i < 3; ++i) EXPECT_EQ(systemd_.Next(), "WATCHDOG=1");
    stuck_ = true;
    AwaitLooks(2);  // a ping for the last round may be under way
    systemd_.Forget();
    AwaitLooks(10);
    EXPECT_EQ(systemd_.Forget(), 0);
    stuck_ = false;
    EXPECT_EQ(systemd_.Next(), "WATCHDOG=1");
  }
  systemd_.Forget();
  const std::uint64_t looks = looks_;
  const std::string logged = testing::internal::GetCapturedStdout();
  EXPECT_THAT(logged, ContainsRegex("the loop 'second' has made no round for [0-9]+ s; from [0-9]+ s on"));
  EXPECT_EQ(logged.find("the loop"), logged.rfind("the loop")) << "once: " << logged;
  EXPECT_EQ(looks_, looks) << "nobody looks any more";
  EXPECT_EQ(systemd_.Forget(), 0);
}

TEST_F(ServiceManagerTest, LeavesTheWatchdogOfAnotherProcessAlone) {
  const ScopedVariable limit("WATCHDOG_USEC", kLimit);
  const ScopedVariable other("WATCHDOG_PID", std::to_string(::getppid()));
  ServiceManager manager;
  manager.WatchLoops([&] { return Rounds(); });
  EXPECT_EQ(looks_, 0u);
}

TEST_F(ServiceManagerTest, AWrongLimitIsNone) {
  const ScopedVariable limit("WATCHDOG_USEC", "soon");
  ServiceManager manager;
  manager.WatchLoops([&] { return Rounds(); });
  EXPECT_EQ(looks_, 0u);
}

}  // namespace
}  // namespace autocfg::base
