// The completion scripts, the manual pages and the help of plan options, which follow from the verbs and
// from the table of options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

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
  EXPECT_THAT(Complete("autocfg report --in"), HasSubstr("--input\n"));
  EXPECT_THAT(Complete("autocfg db ba"), HasSubstr("backup\n"));
  EXPECT_THAT(Complete("autocfg db backup --out"), HasSubstr("--output\n"));
  EXPECT_THAT(Complete("autocfg db ch"), HasSubstr("check\n"));
  EXPECT_THAT(Complete("autocfg db exp"), HasSubstr("export\n"));
  EXPECT_THAT(Complete("autocfg db im"), HasSubstr("import\n"));
  EXPECT_THAT(Complete("autocfg db prune --older"), HasSubstr("--older-than\n"));
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

// Returns whether this machine has the program; its tests are skipped without it.
bool Has(const std::string& program) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", program).c_str()) == 0;
}

// Runs a program on a file with this text, and returns what it printed.
std::string RunOn(const std::string& command, const std::string& text) {
  const ScratchDirectory scratch;
  const std::string path = scratch.Write("text", text), answer = scratch / "answer";
  EXPECT_EQ(std::system(fmt::format("{} {} >{} 2>&1", command, path, answer).c_str()), 0)
      << ReadWhole(answer);
  return ReadWhole(answer);
}

std::string Printed(const std::vector<std::string>& args) {
  const ScratchDirectory scratch;
  const Finished printed = RunAutocfg(scratch, args);
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  return printed.out;
}

TEST(Completion, EveryShellHasVerbsOptionsAndPresets) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = Printed({"completion", shell});
    for (const char* word : {"search", "calibrate", "doctor", "memory-margin", "llama3-8b", "h100-sxm",
                             "schedule=zb-h1", "dp_shard="}) {
      EXPECT_THAT(script, HasSubstr(word)) << shell;
    }
  }
  const ScratchDirectory scratch;
  const Finished wrong = RunAutocfg(scratch, {"completion", "csh"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.err, "autocfg: completion: there is no script for 'csh'; give bash, zsh or fish\n");
}

TEST(Completion, ZshReadsItsScript) {
  if (!Has("zsh")) GTEST_SKIP() << "this machine has no zsh";
  EXPECT_EQ(RunOn("zsh -n", Printed({"completion", "zsh"})), "");
}

TEST(Completion, FishCompletesByItsScript) {
  if (!Has("fish")) GTEST_SKIP() << "this machine has no fish";
  const std::string script = Printed({"completion", "fish"});
  const auto complete = [&](const std::string& line) {
    return RunOn("fish --no-config", script + fmt::format("complete -C '{}'\n", line));
  };
  EXPECT_THAT(complete("autocfg pre"), HasSubstr("predict\t"));
  EXPECT_THAT(complete("autocfg search --mem"), HasSubstr("--memory-margin\t"));
  EXPECT_THAT(complete("autocfg predict --model llama3-8"), HasSubstr("llama3-8b"));
}

TEST(ManualPages, HaveEveryVerbAndOption) {
  const std::string whole = Printed({"man"});
  for (const char* verb : {"search", "predict", "explain", "train", "workers", "db", "man"}) {
    EXPECT_THAT(whole, HasSubstr(fmt::format(".B {}\n", verb)));
    EXPECT_THAT(whole, HasSubstr(fmt::format(".BR autocfg\\-{} (1)", verb)));
  }
  const std::string search = Printed({"man", "search"});
  EXPECT_THAT(search, HasSubstr(".TH AUTOCFG\\-SEARCH 1"));
  for (const char* option : {"time\\-budget", "global\\-batch", "predict\\-only", "coordinator"})
    EXPECT_THAT(search, HasSubstr(fmt::format(".B \\-\\-{}", option)));
  for (const PlanOption& option : PlanOptions())
    EXPECT_THAT(search, HasSubstr(std::string(option.name))) << "in the table of plan options";
  EXPECT_THAT(search, HasSubstr(".B 130\n"));
  const ScratchDirectory scratch;
  const Finished wrong = RunAutocfg(scratch, {"man", "serach"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.err, "autocfg: man: there is no verb 'serach'; see autocfg --help\n");
}

TEST(ManualPages, GroffFindsNoFault) {
  if (!Has("groff")) GTEST_SKIP() << "this machine has no groff";
  for (const char* verb :
       {"search",   "predict", "explain", "calibrate", "size",   "train",      "studies", "pause",  "resume",
        "update",   "delete",  "trials",  "workers",   "watch",  "cancel",     "export",  "import", "models",
        "clusters", "report",  "db",      "token",     "doctor", "completion", "man",     "version"}) {
    EXPECT_EQ(RunOn("groff -man -Tutf8 -z -ww", Printed({"man", verb})), "") << verb;
  }
  EXPECT_EQ(RunOn("groff -man -Tutf8 -z -ww", Printed({"man"})), "");
}

TEST(Help, ListsEveryOptionOfAPlan) {
  const ScratchDirectory scratch;
  for (const char* verb : {"search", "predict", "explain", "train"}) {
    const Finished help = RunAutocfg(scratch, {verb, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(Unwrapped(help.out), HasSubstr(Unwrapped(PlanOptionsHelp()))) << verb;
  }
}

}  // namespace
}  // namespace autocfg::cli
