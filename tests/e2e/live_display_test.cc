// The live display of a search on a terminal, as a user sees it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/cli/screen.h"

namespace autocfg::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

// Runs a search of some seconds whose standard error is a terminal of 80 columns: the block is drawn every
// 0.2 s, and the plan is measured for longer. Returns what it wrote there; empty if there is no terminal.
std::string OnTerminal(const ScratchDirectory& home, const std::vector<std::string>& more) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return "";
  const std::string name = ptsname(terminal);
  std::vector<std::string> words = {
      BuildPath("bin/autocfg"),
      "search",
      "--db",
      home / "a.db",
      "--cluster",
      "local:1x2",
      "--global-batch",
      "256",
      "--space",
      "dp=2",
      "--space",
      "mbs=1",
      "--max-trials",
      "1",
      "--model",
      home.Write("model.json",
                 R"({"layers": 4, "hidden": 128, "heads": 2, "vocab": 512, "max_seq_len": 64})")};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string out = home / "out";
  const pid_t child = fork();
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C", 1);
    setenv("NO_COLOR", "1", 1);
    setenv("AUTOCFG_NVML_LIBRARY", "libautocfg-no-nvml.so.1", 0);
    const int err = open(name.c_str(), O_RDWR | O_NOCTTY);
    winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(err, TIOCSWINSZ, &size);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    dup2(err, 2);
    close(terminal);
    execv(argv[0], argv.data());
    _exit(127);
  }
  std::string written;
  char buffer[4096];
  // After the last byte, a terminal that nobody has open answers with an error.
  for (ssize_t got = 0; (got = read(terminal, buffer, sizeof buffer)) != 0;) {
    if (got > 0) {
      written.append(buffer, static_cast<std::size_t>(got));
      continue;
    }
    if (waitpid(child, nullptr, WNOHANG) == child) break;
    usleep(10'000);
  }
  close(terminal);
  return written;
}

TEST(LiveDisplay, ShowsWhatRunsAndEndsClean) {
  const ScratchDirectory home;
  const std::string written = OnTerminal(home, {});
  if (written.empty()) GTEST_SKIP() << "no pseudo-terminal here";
  EXPECT_THAT(written, HasSubstr("study 1: calibrating"));
  EXPECT_THAT(written, HasSubstr(", round 1"));
  EXPECT_THAT(written, HasSubstr(" on local"));
  EXPECT_THAT(written, HasSubstr("%"));
  EXPECT_THAT(written, Not(HasSubstr("\x1b[1m"))) << "NO_COLOR is set";
  Screen screen(1000);  // a note is one row, however long; the block is made for 80 columns
  screen.Feed(written);
  for (const std::string& row : screen.Rows())
    EXPECT_TRUE(row.starts_with("autocfg: ")) << "left on the screen: " << row;
  EXPECT_THAT(ReadWhole(home / "out"), HasSubstr("best plan: "));
}

TEST(LiveDisplay, JsonKeepsTheLines) {
  const ScratchDirectory home;
  const std::string written = OnTerminal(home, {"--json"});
  EXPECT_THAT(written, Not(HasSubstr("\x1b[")));
}

}  // namespace
}  // namespace autocfg::cli
