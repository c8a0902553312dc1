#include "base/os/end_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace autocfg::base {
namespace {

using std::chrono::milliseconds;
using testing::ExitedWithCode;
using testing::KilledBySignal;

const EndSignals::Options kSecond{.program = "a-program", .limit_s = 1, .exit_status = 33};
const EndSignals::Options kNoLimit{.program = "a-program", .limit_s = 0};

std::atomic<unsigned> turns = 0;  // a loop without effect need not be compiled

[[noreturn]] void Burn() {
  while (true) {
    turns.fetch_add(1, std::memory_order_relaxed);
#ifdef __SANITIZE_THREAD__
    ::usleep(1);  // this sanitizer delivers signals only in functions that it knows
#endif
  }
}

TEST(EndSignals, SetTheFlagAndWakeTheWaitingThread) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const EndSignals signals({.program = "a-program", .limit_s = 0, .hangup = true});
    EXPECT_FALSE(signals.requested());
    std::thread waits([&] { EXPECT_EQ(signals.Wait(), signal); });
    std::this_thread::sleep_for(milliseconds(20));
    kill(getpid(), signal);
    waits.join();
    EXPECT_TRUE(signals.requested());
  }
}

TEST(EndSignals, StopWaitingReturnsNoSignal) {
  const EndSignals signals(kNoLimit);
  std::thread waits([&] { EXPECT_EQ(signals.Wait(), 0); });
  signals.StopWaiting();
  waits.join();
  EXPECT_FALSE(signals.requested());
}

TEST(EndSignals, ASecondOneEndsTheProcessUnlessItIsTheSame) {
  const auto child = [](int second, milliseconds later) {
    const EndSignals signals(kNoLimit);
    raise(SIGTERM);
    std::this_thread::sleep_for(later);
    raise(second);
    std::exit(signals.Wait() == SIGTERM ? 5 : 6);
  };
  EXPECT_EXIT(child(SIGTERM, milliseconds(0)), ExitedWithCode(5), "");  // as `timeout` does
  EXPECT_EXIT(child(SIGINT, milliseconds(600)), ExitedWithCode(5), "");
  EXPECT_EXIT(child(SIGTERM, milliseconds(600)), KilledBySignal(SIGTERM), "");
}

TEST(EndSignals, LeaveHangupsAlone) {
  const auto child = [](bool taken, void (*before)(int)) {
    std::signal(SIGHUP, before);
    const EndSignals signals({.program = "a-program", .limit_s = 0, .hangup = taken});
    raise(SIGHUP);
    std::exit(signals.requested() ? 5 : 6);
  };
  EXPECT_EXIT(child(true, SIG_DFL), ExitedWithCode(5), "");
  EXPECT_EXIT(child(true, SIG_IGN), ExitedWithCode(6), "");  // nohup
  EXPECT_EXIT(child(false, SIG_DFL), KilledBySignal(SIGHUP), "");
}

TEST(EndSignals, RestoreHandlers) {
  const auto child = [] {
    { const EndSignals signals(kNoLimit); }
    raise(SIGTERM);
    std::exit(5);
  };
  EXPECT_EXIT(child(), KilledBySignal(SIGTERM), "");
}

TEST(EndSignals, AreIgnoredOnRequest) {
  const auto child = [] {
    EndSignals::Ignore();
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) raise(signal);
    std::exit(5);
  };
  EXPECT_EXIT(child(), ExitedWithCode(5), "");
}

TEST(EndSignals, EndAProcessWhoseThreadsDoNot) {
  const auto child = [] {
    const EndSignals signals(kSecond);
    std::thread(Burn).detach();
    raise(SIGTERM);
    Burn();
  };
  EXPECT_EXIT(child(), ExitedWithCode(33),
              "^a-program: a part of it did not end within 1 s; exiting without it\n$");
}

// The program that starts this one may leave the signals blocked.
TEST(EndSignals, WorkWhereAllWereBlocked) {
  const auto child = [] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    const EndSignals signals(kSecond);
    raise(SIGTERM);
    Burn();
  };
  EXPECT_EXIT(child(), ExitedWithCode(33), "a-program");
}

TEST(EndSignals, ALaterOneDoesNotExtendTheLimit) {
  const auto child = [] {
    const EndSignals signals({.program = "a-program", .limit_s = 1, .exit_status = 33, .hangup = true});
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
      raise(signal);
      std::this_thread::sleep_for(milliseconds(400));
    }
    std::exit(5);
  };
  EXPECT_EXIT(child(), ExitedWithCode(33), "a-program");
}

TEST(EndSignals, LeaveAProcessThatEndsInTimeAlone) {
  const auto child = [] {
    const EndSignals signals({.program = "a-program", .limit_s = 60});
    raise(SIGTERM);
    std::exit(5);
  };
  EXPECT_EXIT(child(), ExitedWithCode(5), "^$");
}

}  // namespace
}  // namespace autocfg::base
