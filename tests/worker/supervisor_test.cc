// The parts of autocfg-supervisor. tests/worker/processes/process_launcher_test.cc tests the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/support/build_paths.h"
#include "worker/supervisor/children.h"
#include "worker/supervisor/job_usage.h"
#include "worker/supervisor/orders.h"

namespace autocfg::worker {
namespace {

using testing::IsSupersetOf;

// Starts a child that runs `prepare`, then waits until a signal ends it. No failure of a test leaves it
// behind.
pid_t StartChild(const std::function<void()>& prepare = [] {}) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  prepare();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (::getppid() == parent) ::pause();
  ::_exit(1);
}

// Runs `body` in a process of its own, which is a subreaper. Returns the number that `body` returns.
int InSubreaper(const std::function<int()>& body) {
  const pid_t process = ::fork();
  if (process == 0) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void Wait() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

TEST(Children, BothWaysFindThem) {
  const std::vector<pid_t> children = {StartChild(), StartChild()};
  EXPECT_THAT(ScannedChildren(), IsSupersetOf(children));
  EXPECT_THAT(Children(), IsSupersetOf(children));
  // Kernels without CONFIG_PROC_CHILDREN do not list them.
  EXPECT_THAT(ListedChildren().value_or(children), IsSupersetOf(children));
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_THAT(Children(), testing::Not(testing::Contains(children[0])));
}

TEST(EndChildren, EndsChildrenAndWhatTheyLeaveBehind) {
  EXPECT_EQ(InSubreaper([] {
              StartChild();
              StartChild([] { ::signal(SIGTERM, SIG_IGN); });
              ::kill(StartChild(), SIGSTOP);
              int pipe[2];
              if (::pipe(pipe) != 0) return 100;
              StartChild([&] {  // leaves a process behind, in a session of its own
                ::setsid();
                if (::fork() == 0) {
                  ::signal(SIGTERM, SIG_IGN);
                  ::alarm(60);
                  for (;;) ::pause();
                }
                if (::write(pipe[1], "x", 1) != 1) ::_exit(1);
              });
              char ready = 0;
              if (::read(pipe[0], &ready, 1) != 1) return 100;
              const EndedChildren ended =
                  EndChildren({std::chrono::milliseconds(100), std::chrono::seconds(60)}, Wait);
              if (!ended.remaining.empty() || ::waitpid(-1, nullptr, WNOHANG) != -1) return 100;
              return ended.signalled;
            }),
            5);
}

TEST(EndChildren, WithoutChildrenReturnsAtOnce) {
  EXPECT_EQ(
      InSubreaper([] {
        return EndChildren({std::chrono::hours(1), std::chrono::hours(1)}, [] { std::abort(); }).signalled;
      }),
      0);
}

TEST(EndChildren, GivesUpAtTheLimit) {
  EXPECT_EQ(InSubreaper([] {
              const pid_t child = StartChild();
              const EndedChildren ended =
                  EndChildren({std::chrono::milliseconds(0), std::chrono::milliseconds(0)}, Wait);
              return ended.remaining == std::vector<pid_t>{child} ? 1 : 0;
            }),
            1);
}

TEST(AllDescendants, HasGrandchildrenAndStopsAboveTheMost) {
  EXPECT_EQ(InSubreaper([] {
              int pipe[2];
              if (::pipe(pipe) != 0) return 100;
              StartChild([&] {
                StartChild([&] {
                  StartChild();
                  if (::write(pipe[1], "x", 1) != 1) ::_exit(1);
                });
              });
              char ready = 0;
              if (::read(pipe[0], &ready, 1) != 1) return 100;
              const std::size_t all = AllDescendants(10).size();
              const std::size_t some = AllDescendants(1).size();
              EndChildren({std::chrono::milliseconds(0), std::chrono::seconds(60)}, Wait);
              return static_cast<int>(10 * all + some);
            }),
            32);
}

TEST(PrivateBytes, MemoryOfAForkCountsOnceIfTheKernelSaysSo) {
  constexpr std::int64_t kSize = 64 << 20;
  const std::vector<char> memory(kSize, 'x');
  const std::vector<pid_t> children = {StartChild(), StartChild(), StartChild()};
  std::vector<pid_t> all = children;
  all.push_back(::getpid());
  EXPECT_GT(PrivateBytes(all), 4 * kSize);
  EXPECT_GT(PrivateBytesCountedOnce(all), kSize);
  EXPECT_LT(PrivateBytesCountedOnce(all), PrivateBytes(all) - 2 * kSize);
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(PrivateBytes(children), 0);
  EXPECT_EQ(PrivateBytesCountedOnce(children), 0);
}

TEST(RankCommand, RoundTrips) {
  for (const RankCommand& command :
       {RankCommand{{"/bin/a b", "", "--x=1"}, {"A=1", "B="}}, RankCommand{{"p"}, {}},
        RankCommand{{"p", "a"}, {"A=1"}, true, "/a dir"}}) {
    const auto decoded = DecodeRankCommand(EncodeRankCommand(command));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->arguments, command.arguments);
    EXPECT_EQ(decoded->environment, command.environment);
    EXPECT_EQ(decoded->foreign, command.foreign);
    EXPECT_EQ(decoded->directory, command.directory);
  }
  using namespace std::string_literals;
  for (const std::string& text : {""s, "1"s, "1\0"s, "1\0\0\0"s, "0\0\0\0a\0"s, "2\0\0\0a\0"s, "x\0\0\0a\0"s,
                                  "1\0\0\0a"s, "1\0x\0\0a\0"s})
    EXPECT_FALSE(DecodeRankCommand(text)) << text;
}

TEST(SupervisorProgram, RefusesToRunByHand) {
  const std::string program = BuildPath("bin/autocfg-supervisor");
  EXPECT_EQ(std::system((program + " 3</dev/null 2>/dev/null").c_str()), 2 << 8);
  EXPECT_EQ(std::system((program + " --nonsense 2>/dev/null").c_str()), 2 << 8);
  EXPECT_EQ(std::system((program + " --version >/dev/null").c_str()), 0);
  EXPECT_EQ(std::system((program + " --help >/dev/null").c_str()), 0);
}

}  // namespace
}  // namespace autocfg::worker
