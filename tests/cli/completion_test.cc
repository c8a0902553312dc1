// The completion script and the help of plan options, which follow from the verbs and from the table of
// options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "fmt/format.h"
#include "search/plan/plan_options.h"
#include "search/text/plan_json.h"
#include "tests/cli/program.h"

namespace autocfg::cli {
namespace {

using ::testing::HasSubstr;

// For a text within single quotes of a shell.
std::string Quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted;
}

// Sources the script in bash, completes `words` and returns the candidates, one a line.
std::string Complete(const std::string& words) {
  const ScratchDirectory scratch;
  const Finished script = RunAutocfg(scratch, {"completion"});
  EXPECT_EQ(script.exit_code, 0) << script.err;
  const std::string path = scratch.Write("completion.bash", script.out);
  const std::string program = "source " + path + "; COMP_WORDS=(" + words +
                              "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }; _autocfg; printf "
                              "'%s\\n' \"${COMPREPLY[@]}\"";
  const std::string answer = scratch / "answer";
  EXPECT_EQ(std::system(fmt::format("bash -c '{}' >{}", Quoted(program), answer).c_str()), 0);
  return ReadWhole(answer);
}

TEST(Completion, KnowsVerbsAndTheirOptions) {
  EXPECT_THAT(Complete("autocfg pre"), HasSubstr("predict\n"));
  EXPECT_THAT(Complete("autocfg search --time"), HasSubstr("--time-budget\n"));
  EXPECT_THAT(Complete("autocfg search --memory-m"), HasSubstr("--memory-margin\n"));
  EXPECT_THAT(Complete("autocfg search --rej"), HasSubstr("--rejected\n"));
  EXPECT_THAT(Complete("autocfg search --par"), HasSubstr("--pareto\n"));
  EXPECT_THAT(Complete("autocfg explain --memory-m"), HasSubstr("--memory-margin\n"));
  EXPECT_THAT(Complete("autocfg search --nod"), HasSubstr("--nodes\n"));
  EXPECT_THAT(Complete("autocfg search --mtbf"), HasSubstr("--mtbf-hours\n"));
  EXPECT_THAT(Complete("autocfg size --gp"), HasSubstr("--gpus\n"));
  EXPECT_THAT(Complete("autocfg db ba"), HasSubstr("backup\n"));
  EXPECT_THAT(Complete("autocfg db backup --out"), HasSubstr("--output\n"));
}

TEST(Completion, KnowsPresets) {
  EXPECT_THAT(Complete("autocfg predict --model llama3-8"), HasSubstr("llama3-8b\n"));
  EXPECT_THAT(Complete("autocfg predict --cluster h100"), HasSubstr("h100-sxm\n"));
}

TEST(Completion, KnowsEveryOptionOfAPlan) {
  for (const PlanOption& option : PlanOptions()) {
    const std::string name(option.name);
    EXPECT_THAT(Complete("autocfg search --space " + name), HasSubstr(name + "=")) << name;
  }
  EXPECT_THAT(Complete("autocfg predict --plan tp=2,sched"), HasSubstr("tp=2,schedule=gpipe\n"));
}

TEST(Help, ListsEveryOptionOfAPlan) {
  const ScratchDirectory scratch;
  for (const char* verb : {"search", "predict", "explain", "train"}) {
    const Finished help = RunAutocfg(scratch, {verb, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, HasSubstr(PlanOptionsHelp())) << verb;
  }
}

}  // namespace
}  // namespace autocfg::cli
