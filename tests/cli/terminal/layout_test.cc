#include "cli/terminal/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace autocfg::cli {
namespace {

using testing::HasSubstr;

std::size_t Widest(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, ColumnsOf(line));
  return widest;
}

constexpr const char* kPlan =
    "tp=8,pp=64,dp=4,mbs=1,schedule=zb-h1,split=1+2x62+1,sp=1,zero=1,tp_overlap=2,grad_overlap=1";

TEST(Hung, ContinuesUnderTheIndent) {
  EXPECT_EQ(Hung("short", 4), "short\n");
  EXPECT_EQ(Hung("", 4), "\n");
  const std::string word(30, 'a');
  EXPECT_EQ(Hung(word + " " + word + " " + word, 4), word + " " + word + "\n    " + word + "\n");
  EXPECT_EQ(Hung(std::string(80, 'a'), 4), std::string(80, 'a') + "\n") << "80 columns fit";
  EXPECT_EQ(Hung(std::string(39, 'a') + " " + std::string(41, 'b'), 0),
            std::string(39, 'a') + "\n" + std::string(41, 'b') + "\n");
}

TEST(Hung, KeepsLongWordsWholeAndBehindTheirTitle) {
  const std::string word(90, 'a');
  EXPECT_EQ(Hung("plan: " + word + "  (measured)", 6), "plan: " + word + "\n      (measured)\n");
  EXPECT_EQ(Hung("a " + word + " b", 2), "a " + word + "\n  b\n");
}

TEST(Hung, CountsCharactersNotBytes) {
  const std::string blocks = "██████████";  // 30 bytes
  EXPECT_EQ(ColumnsOf(blocks), 10u);
  EXPECT_EQ(Hung(blocks + " " + blocks + " " + blocks, 0), blocks + " " + blocks + " " + blocks + "\n");
}

TEST(Wrapped, ContinuesUnderTheTitleOrTheLastColumn) {
  std::string words;
  for (int i = 0; i < 20; ++i) words += " word" + std::to_string(i);
  EXPECT_THAT(Wrapped("why:" + words + "\nnext\n"), HasSubstr("\n     word"));
  EXPECT_THAT(Wrapped("no title" + words), HasSubstr("\n  word"));
  EXPECT_THAT(Wrapped("  name      " + words.substr(1)), HasSubstr("\n            word"));
  EXPECT_LE(Widest(Wrapped("why:" + words)), kLineColumns);
  const std::string table = std::string(50, 'x') + "  " + std::string(50, 'y') + "\n";
  EXPECT_EQ(Wrapped(table), table) << "its last column leaves no room";
}

TEST(CommandLines, IsOneCommandOfAShell) {
  EXPECT_EQ(CommandLines("next: ", "autocfg train --steps 3"), "next: autocfg train --steps 3\n");
  const std::string command =
      "autocfg train --model gpt2-tiny --global-batch 48 --seq-len 64 --precision fp32 --plan tp=1,dp=2";
  EXPECT_EQ(CommandLines("next: ", command),
            "next: autocfg train --model gpt2-tiny --global-batch 48 --seq-len 64 \\\n"
            "        --precision fp32 --plan tp=1,dp=2\n");
  const std::string quoted = "'" + std::string(50, 'a') + " --b '\\'' --c" + std::string(50, 'd') + "'";
  EXPECT_THAT(CommandLines("next: ", "autocfg train --model " + quoted + " --steps 3"), HasSubstr(quoted));
}

TEST(Table, FitsAsItIs) {
  EXPECT_EQ(Table({{"a", "b"}, {"1", "22"}, {"333", ""}}), "  a    b\n  1    22\n  333\n");
  EXPECT_EQ(Table({}), "");
}

TEST(Table, HeadingsAreContinuedBeforeCells) {
  const std::string cell(22, 'x');
  const std::string text =
      Table({{"first", "second", "the third heading is longer by far", "4"}, {cell, cell, cell, "1"}});
  EXPECT_LE(Widest(text), kLineColumns);
  EXPECT_THAT(text, testing::StartsWith(std::string(50, ' ') + "the third heading is longer\n  first "));
  EXPECT_THAT(text, HasSubstr("  by far "));
  EXPECT_THAT(text, testing::ContainsRegex("\n  " + cell + "  " + cell + "  " + cell + " +1\n$"));
}

TEST(Table, PlansAreContinuedAfterACommaInTheLastColumn) {
  const std::string text =
      Table({{"step time", "runners-up"}, {"48 s", kPlan}, {"50 s", "tp=1"}}, {.text = true});
  EXPECT_EQ(text,
            "  step time  runners-up\n"
            "  48 s       tp=8,pp=64,dp=4,mbs=1,schedule=zb-h1,split=1+2x62+1,sp=1,zero=1,\n"
            "             tp_overlap=2,grad_overlap=1\n"
            "  50 s       tp=1\n");
}

TEST(Table, ALastColumnWithoutRoomGoesBelowEachRow) {
  const std::string cell(16, 'x');
  const std::string text = Table({{"k", "b", "c", "d", "plan"}, {"1", cell, cell, cell, kPlan}},
                                 {.below = {"", "a remark\nanother"}, .text = true});
  EXPECT_EQ(text,
            "  k  b                 c                 d\n"
            "     plan\n"
            "  1  xxxxxxxxxxxxxxxx  xxxxxxxxxxxxxxxx  xxxxxxxxxxxxxxxx\n"
            "     tp=8,pp=64,dp=4,mbs=1,schedule=zb-h1,split=1+2x62+1,sp=1,zero=1,\n"
            "     tp_overlap=2,grad_overlap=1\n"
            "     a remark\n"
            "     another\n");
}

TEST(Table, IsContinuedBelowWithItsKeys) {
  std::vector<std::vector<std::string>> rows(2, {"name", "side"});
  for (int i = 0; i < 8; ++i) {
    rows[0].push_back("column" + std::to_string(i));
    rows[1].push_back(std::string(12, static_cast<char>('a' + i)));
  }
  const std::string text = Table(rows, {.keys = 2});
  EXPECT_LE(Widest(text), kLineColumns);
  EXPECT_THAT(text, HasSubstr("  name  side  column0       column1       column2       column3"));
  EXPECT_THAT(text, HasSubstr("\n\n  name  side  column4 "));
  EXPECT_THAT(text, HasSubstr("\n  name  side  eeeeeeeeeeee  ffffffffffff"));
}

TEST(Table, RowsWithoutAHeadingBeginOnTheirFirstLine) {
  std::string words;
  for (int i = 0; i < 20; ++i) words += "word" + std::to_string(i) + " ";
  EXPECT_THAT(Table({{"shape", words}, {"time", "1 s"}}, {.heading = false}),
              testing::StartsWith("  shape  word0 word1"));
}

}  // namespace
}  // namespace autocfg::cli
