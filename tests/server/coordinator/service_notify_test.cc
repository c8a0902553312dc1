// What autocfg-server tells systemd as a service of Type=notify.
#include <csignal>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/server/program_process.h"
#include "tests/support/notify_socket.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

class ServerNotify : public testing::Test {
 protected:
  ServerNotify()
      : systemd_(dir_.File("notify")),
        socket_("NOTIFY_SOCKET", dir_.File("notify")),
        limit_("WATCHDOG_USEC", "400000") {}

  std::vector<std::string> Arguments(const std::string& listen) const {
    return {"--listen", listen, "--db", dir_.File("autocfg.db"), "--lease-duration", "400ms"};
  }

  TempDir dir_;
  const NotifySocket systemd_;
  const ScopedVariable socket_;
  const ScopedVariable limit_;
  const ScopedVariable nobody_{"WATCHDOG_PID", std::nullopt};
};

TEST_F(ServerNotify, IsReadyOnceItAnswersAndSaysThatItEnds) {
  const std::string address = "unix:" + dir_.File("server");
  ProgramProcess program(Arguments(address));
  EXPECT_EQ(systemd_.NextWord(), "READY=1\nSTATUS=listening on " + address);
  EXPECT_TRUE(ListStudies(address).ok());
  program.Signal(SIGTERM);
  EXPECT_EQ(systemd_.NextWord(), "STOPPING=1\nSTATUS=ending; studies go on with the next start");
  EXPECT_EQ(program.Wait(), 0);
}

TEST_F(ServerNotify, IsNotReadyIfItCannotServe) {
  ProgramProcess program(Arguments("unix:" + dir_.File("no/such/directory")));
  EXPECT_EQ(program.Wait(), 2);
  EXPECT_EQ(systemd_.Forget(), 0);
}

TEST_F(ServerNotify, PingsOnlyWhileJobsAreGivenOutAndLeasesEnd) {
  ProgramProcess program(Arguments("127.0.0.1:0"));
  const std::string address = program.Address();
  const pid_t watchdog = ThreadNamed(program.pid(), "watchdog");
  for (const auto& [stuck, other] :
       {std::pair("dispatcher", "lease-expiry"), {"lease-expiry", "dispatcher"}}) {
    EXPECT_THAT(systemd_.Next(), testing::Not(""));
    {
      const HungThread hung(ThreadNamed(program.pid(), stuck));
      if (!hung.allowed()) GTEST_SKIP() << "threads of other processes cannot be stopped here";
      AwaitWaits(watchdog, 2);  // a ping for the last round may be under way
      systemd_.Forget();
      AwaitWaits(ThreadNamed(program.pid(), other), 4);
      AwaitWaits(watchdog, 8);
      EXPECT_EQ(systemd_.Forget(), 0) << stuck << " is stuck";
    }
    EXPECT_EQ(systemd_.Next(), "WATCHDOG=1");
  }
  EXPECT_TRUE(ListStudies(address).ok());
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

}  // namespace
}  // namespace autocfg::server
