#include "base/os/end_limit.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace autocfg::base {
namespace {

using testing::ExitedWithCode;

const EndLimit kSecond{.program = "a-program", .seconds = 1, .exit_status = 33};

std::atomic<unsigned> turns = 0;  // a loop without effect need not be compiled

[[noreturn]] void Burn() {
  while (true) {
    turns.fetch_add(1, std::memory_order_relaxed);
#ifdef __SANITIZE_THREAD__
    ::usleep(1);  // this sanitizer delivers signals only in functions that it knows
#endif
  }
}

TEST(EndLimit, EndsAProcessWhoseThreadsDoNot) {
  const auto child = [] {
    PrepareEndLimit(kSecond);
    std::thread(Burn).detach();
    StartEndLimit();
    Burn();
  };
  EXPECT_EXIT(child(), ExitedWithCode(33),
              "^a-program: a part of it did not end within 1 s; exiting without it\n$");
}

// The program that starts this one may leave the signal blocked.
TEST(EndLimit, HoldsWhereTheAlarmWasBlocked) {
  const auto child = [] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    PrepareEndLimit(kSecond);
    StartEndLimit();
    Burn();
  };
  EXPECT_EXIT(child(), ExitedWithCode(33), "a-program");
}

TEST(EndLimit, IsNotExtendedByASecondStart) {
  const auto child = [] {
    PrepareEndLimit(kSecond);
    while (true) {
      StartEndLimit();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  };
  EXPECT_EXIT(child(), ExitedWithCode(33), "a-program");
}

TEST(EndLimit, LeavesAProcessThatEndsInTimeAlone) {
  const auto child = [] {
    EndLimit minute = kSecond;
    minute.seconds = 60;
    PrepareEndLimit(minute);
    StartEndLimit();
    std::exit(5);
  };
  EXPECT_EXIT(child(), ExitedWithCode(5), "^$");
}

}  // namespace
}  // namespace autocfg::base
