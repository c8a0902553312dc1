// Programs whose caller has closed standard streams, and those that are read from pipes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "fmt/format.h"
#include "tests/cli/program.h"
#include "tests/support/build_paths.h"

namespace autocfg::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class ClosedStreams : public testing::Test {
 protected:
  // Runs a command of bash, where $autocfg is the program and $home the test's directory. Returns its exit
  // status.
  int Bash(const std::string& command) const {
    const std::string script = home_.Write("script", command);
    const std::string line = fmt::format("autocfg={} home={} XDG_STATE_HOME={} timeout 120 bash {}",
                                         BuildPath("bin/autocfg"), home_.path(), home_.path(), script);
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  const ScratchDirectory home_;
  const std::string model_ =
      home_.Write("model.json",
                  R"({"name": "m", "layers": 2, "hidden": 32, "heads": 2, "vocab": 64, "max_seq_len": 16})");
};

TEST_F(ClosedStreams, FilesOfTheProgramDoNotTakeTheirPlace) {
  const std::string train = "$autocfg train --model $home/model.json --plan dp=1 --steps 2 --device cpu";
  EXPECT_EQ(Bash(train + " --log $home/out.jsonl 2>$home/err >&-"), 1);
  EXPECT_THAT(ReadWhole(home_ / "err"), HasSubstr("standard output: cannot write the answer"));
  EXPECT_THAT(ReadWhole(home_ / "out.jsonl"), Not(HasSubstr("tokens per second")));
  home_.Write("data.u16", std::string(100, '\0'));
  EXPECT_EQ(Bash(train + " --data $home/data.u16 --log $home/out.csv >/dev/null 2>&-"), 0);
  EXPECT_THAT(ReadWhole(home_ / "out.csv"), Not(HasSubstr("autocfg: ")));
}

TEST_F(ClosedStreams, ClosedInputCannotBeRead) {
  EXPECT_EQ(Bash("$autocfg predict --requests - <&- 2>$home/err"), 2);
  EXPECT_THAT(ReadWhole(home_ / "err"), HasSubstr("standard input: cannot be read"));
}

TEST_F(ClosedStreams, ModelComesFromAPipe) {
  EXPECT_EQ(Bash("$autocfg predict --model <(cat $home/model.json) --cluster h100-sxm:1x8 --global-batch 64 "
                 "--plan dp=8 >$home/out 2>$home/err"),
            0)
      << ReadWhole(home_ / "err");
  EXPECT_THAT(ReadWhole(home_ / "out"), HasSubstr("plan: "));
}

}  // namespace
}  // namespace autocfg::cli
