// Words of bash scripts that are never run. What is expected here was compared with bash itself.
#include "search/frameworks/shell/shell_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace autocfg {
namespace {

using testing::ElementsAre;

// The words of the last command.
std::vector<std::string> LastWords(const std::string& text) {
  const auto script = ReadShellScript("a.sh", text);
  EXPECT_TRUE(script.ok()) << script.status();
  std::vector<std::string> words;
  if (!script.ok() || script->commands.empty()) return words;
  for (const ShellWord& word : script->commands.back().words) {
    std::string shown;
    for (const ShellChar& c : word) {
      if (c.unknown >= 0) {
        shown += "<" + script->unknowns[static_cast<std::size_t>(c.unknown)] + ">";
      } else {
        shown += c.c;
      }
    }
    words.push_back(shown);
  }
  return words;
}

TEST(ShellScript, Words) {
  EXPECT_THAT(LastWords("run a 'b c' \"d e\" f\\ g h\\\ni # j\n"),
              ElementsAre("run", "a", "b c", "d e", "f g", "hi"));
  EXPECT_THAT(LastWords("run a#b '#c' \"\" ''\n"), ElementsAre("run", "a#b", "#c", "", ""));
  EXPECT_THAT(LastWords("x; y && run a; # z"), ElementsAre("run", "a"));
  EXPECT_THAT(LastWords("run a\r\n"), ElementsAre("run", "a"));
  EXPECT_THAT(LastWords("run a \\\r\n  b\r\n"), ElementsAre("run", "a", "b"));
}

TEST(ShellScript, BranchesOfKnownTests) {
  const auto branch = [](const std::string& condition) {
    const std::vector<std::string> words =
        LastWords("A=x\nE=\nN=3\nif " + condition + "; then B=1; else B=2; fi\nrun $B");
    return words.size() == 2 ? words[1] : "";
  };
  for (const char* yes : {"[ $A = x ]",
                          "[ \"$A\" == \"x\" ]",
                          "[[ $A == x ]]",
                          "[[ \"$A\" != y ]]",
                          "test $A = x",
                          "[ -n \"$A\" ]",
                          "[ -z \"$E\" ]",
                          "[ -z $E ]",
                          "[ $A ]",
                          "[ $N -gt 2 ]",
                          "[ $N -ge 3 ]",
                          "[ $N -le 3 ]",
                          "[ $N -lt 4 ]",
                          "[ $N -ne 4 ]",
                          "[[ $N -eq 3 ]]",
                          "[ ! -z $A ]",
                          "! [ $A = y ]",
                          "true",
                          ":",
                          "[ $A = y ] || [ $N = 3 ]",
                          "[ $A = x ] && [ $N = 3 ]",
                          "unknown || true",
                          "[ -z $Q ] || [ $A = x ]",
                          "false ||\n true",
                          "{ true; }; [ $A = x ]"}) {
    EXPECT_EQ(branch(yes), "1") << yes;
  }
  for (const char* no : {"[ $A = y ]", "[[ $A != x ]]", "[ $N -lt 3 ]", "[ $E ]", "[ ]", "false", "! true",
                         "[ -z \"$A\" ]", "true && false", "unknown && false", "false || [ $A = y ]"}) {
    EXPECT_EQ(branch(no), "2") << no;
  }
  const std::string unknown = "<$B is set under a condition>";
  for (const char* perhaps :
       {"[ -f x ]", "[ $Q = x ]", "[[ $A == x* ]]", "[[ $A =~ x ]]", "[[ $A == x && $N == 3 ]]", "grep x y",
        "[ $A -eq 3 ]", "[ $A = x -a $N = 3 ]", "true | grep x", "((N > 2))", "[ $A = x", "[ $1 = x ]",
        "unknown && true", "unknown || false", "true && unknown"}) {
    EXPECT_EQ(branch(perhaps), unknown) << perhaps;
  }
}

TEST(ShellScript, BranchesThatDoNotRunSayNothing) {
  EXPECT_THAT(
      LastWords(
          "N=70\nif [ $N -eq 8 ]; then\n  A=1\n  run no\nelif [ $N -eq 70 ]; then\n  A=2\nelif true; then\n"
          "  A=3\nelse\n  A=4\nfi\nrun $A"),
      ElementsAre("run", "2"));
  const auto commands = ReadShellScript("a.sh", "run 1\nif [ a = b ]; then\n run 2\nfi");
  ASSERT_TRUE(commands.ok()) << commands.status();
  EXPECT_EQ(commands->commands.size(), 2u) << "run 1 and the test";
  EXPECT_THAT(
      LastWords(
          "A=1\nif false; then\n if true; then A=2; fi\n for x in a; do A=3; done\n { A=4; }\nfi\nrun $A"),
      ElementsAre("run", "1"));
  EXPECT_THAT(LastWords("A=1\nif x; then A=2; elif true; then B=1; else B=2; fi\nrun $A $B"),
              ElementsAre("run", "<$A is set under a condition>", "<$B is set under a condition>"));
  EXPECT_THAT(LastWords("A=1\ntrue && A=2\nfalse && A=3\ntrue || A=4\nfalse || B=5\nrun $A $B"),
              ElementsAre("run", "2", "5"));
  EXPECT_THAT(LastWords("A=1\nfalse && { A=2; A=3; }\nfalse && ( A=4; A=5 )\ntrue && { A=6; A=7; }\nrun $A"),
              ElementsAre("run", "7"));
  EXPECT_THAT(LastWords("x && { A=2; B=3; }\nrun $B"), ElementsAre("run", "<$B is set under a condition>"));
  EXPECT_THAT(LastWords("false && x | run 1\nrun 2\nfi\nelse\nthen\n}\ndone\nrun 3"),
              ElementsAre("run", "3"));
  EXPECT_THAT(LastWords("A=()\nif x; then A+=( \"--y 1\" ); fi\nrun ${A[@]}"),
              ElementsAre("run", "--y", "1"));
}

TEST(ShellScript, Variables) {
  EXPECT_THAT(LastWords("A=1\nB=\"$A 2\"\nrun $A $B \"$B\" ${A}x '$A' \\$A"),
              ElementsAre("run", "1", "1", "2", "1 2", "1x", "$A", "$A"));
  EXPECT_THAT(LastWords("export A=1 B=2\nrun $A$B"), ElementsAre("run", "12"));
  EXPECT_THAT(LastWords("A=1\nA+=2\nrun ${A:-3} ${B:-4} ${B:-$A} ${A:+5} ${B:+6}"),
              ElementsAre("run", "12", "4", "12", "5"));
  EXPECT_THAT(LastWords("E=\nrun a$E \"$E\" $E ${E:-7}"), ElementsAre("run", "a", "", "7"));
  EXPECT_THAT(LastWords("A=1 run $A"), ElementsAre("run", "1"));
  EXPECT_THAT(LastWords("run ${1:-a} ${12:-\"b\"} ${1} ${2+c}"),
              ElementsAre("run", "a", "b", "<$1 is an argument of the script>"));
}

TEST(ShellScript, Arrays) {
  EXPECT_THAT(LastWords("A=(\n  --x 1 # one\n  '--y z'\n)\nA+=(--w)\nrun \"${A[@]}\" end"),
              ElementsAre("run", "--x", "1", "--y z", "--w", "end"));
  EXPECT_THAT(LastWords("A=(--x 1 '--y z')\nrun ${A[@]}"), ElementsAre("run", "--x", "1", "--y", "z"));
  EXPECT_THAT(LastWords("A=()\nrun \"${A[@]}\" end"), ElementsAre("run", "end"));
}

TEST(ShellScript, Arithmetic) {
  EXPECT_THAT(LastWords("A=4\nrun $((A * 2 + 1)) $(( $A*(1+${A}) )) $((7 / 2)) $((7 % 4 - 1))"),
              ElementsAre("run", "9", "20", "3", "2"));
  EXPECT_THAT(LastWords("run $((B + 1))"),
              ElementsAre("run", "<$((B + 1)) is not computed: $B is not set in the file>"));
  EXPECT_THAT(LastWords("B=$(nproc)\nrun $((2 * B))"),
              ElementsAre("run", "<$((2 * B)) is not computed: $(nproc) is not run>"));
  EXPECT_THAT(LastWords("A=2 B=3\nrun $((A*B*${C:-4})) $((-A + 5)) $(($((A + 1)) * 2))"),
              ElementsAre("run", "24", "3", "6"));
  EXPECT_THAT(LastWords("run $((1 / 0))"), ElementsAre("run", "<$((1 / 0)) is not computed>"));
}

// Bash reads it as octal, so it is no decimal number.
TEST(ShellScript, NumbersWithALeadingZeroAreNotComputed) {
  EXPECT_THAT(LastWords("run $((010 + 1)) $((0 + 1))"),
              ElementsAre("run", "<$((010 + 1)) is not computed>", "1"));
}

// Each is given up for itself, however many there are.
TEST(ShellScript, ArithmeticThatIsTooDeepLeavesTheRestReadable) {
  std::string script;
  for (int i = 0; i < 70; ++i) script += "A=$((" + std::string(70, '-') + "1))\n";
  EXPECT_THAT(LastWords(script + "run ${B:-2} $((3 + 4))"), ElementsAre("run", "2", "7"));
}

TEST(ShellScript, WhatCannotBeKnown) {
  EXPECT_THAT(
      LastWords("run $(a \"(\" b) `c` $D ${E%.*} $1"),
      ElementsAre("run", "<$(a \"(\" b) is not run>", "<`c` is not run>", "<$D is not set in the file>",
                  "<${E%.*} is not computed>", "<$1 is an argument of the script>"));
  EXPECT_THAT(LastWords("if a; then\n  B=1\nelse\n  B=2\nfi\nC=3\nrun $B $C"),
              ElementsAre("run", "<$B is set under a condition>", "3"));
  EXPECT_THAT(LastWords("for i in 1 2; do\n  run $i\ndone"), ElementsAre("run", "<$i is set by a loop>"));
  EXPECT_THAT(LastWords("A='--x 1'\nif b; then A=\"$A --y\"; fi\nrun $A"),
              ElementsAre("run", "--x", "1", "--y"));
  EXPECT_THAT(LastWords("A=(--x)\nb && A+=(--y)\nrun \"${A[@]}\""), ElementsAre("run", "--x", "--y"));
  EXPECT_THAT(LastWords("A=(--x)\nb && A+=(y)\nrun \"${A[@]}\""),
              ElementsAre("run", "--x", "<$A is set under a condition>"));
  EXPECT_THAT(LastWords("run \"${A[@]}\""), ElementsAre("run", "<${A[@]} is not set in the file>"));
  EXPECT_THAT(LastWords("[ -z \"$A\" ] && A=1\nrun $A"), ElementsAre("run", "<$A is set under a condition>"));
}

TEST(ShellScript, WhatAConditionAddsIsMarked) {
  const auto script = ReadShellScript(
      "a.sh", "A='--x 1'\nif b; then A=\"$A --y\"; fi\nB=(--z)\nb && B+=(--w)\nrun $A ${B[@]}");
  ASSERT_TRUE(script.ok());
  std::vector<std::string> why;
  for (const ShellWord& word : script->commands.back().words) {
    const int perhaps = word.front().perhaps;
    why.push_back(perhaps < 0 ? "" : script->unknowns[static_cast<std::size_t>(perhaps)]);
  }
  EXPECT_THAT(why,
              ElementsAre("", "", "", "$A gets it under a condition", "", "$B gets it under a condition"));
}

TEST(ShellScript, RedirectionsAndHereDocumentsAreNoWords) {
  EXPECT_THAT(LastWords("run a > out 2>&1 < in b &> log"), ElementsAre("run", "a", "b"));
  EXPECT_THAT(LastWords("cat <<'END' > x\nrun b\nEND\nrun c"), ElementsAre("run", "c"));
  EXPECT_THAT(LastWords("run a <<<\"text\" b"), ElementsAre("run", "a", "b"));
}

TEST(ShellScript, PlacesAreThoseOfTheValues) {
  const std::string text = "TP=8\nrun --tp $TP\n";
  const auto script = ReadShellScript("a.sh", text);
  ASSERT_TRUE(script.ok());
  EXPECT_EQ(script->commands.back().words.back().front().at, text.find('8'));
}

}  // namespace
}  // namespace autocfg
